//! Looks for targets, and starts and stops scrapes so that exactly the targets of all jobs are scraped.

pub(crate) mod client;
pub(crate) mod discover;
pub(crate) mod job;
pub(crate) mod labels;
pub(crate) mod relabel;
pub(crate) mod scrape;
pub(crate) mod url;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::collector::Collector;
use crate::lock::lock;
use crate::scraper::job::ScrapeJob;
use crate::scraper::labels::LabelSet;
use crate::scraper::scrape::{Scrape, Stop};

/// The most profiles that are scraped at once; each has a thread.
const MAX_SCRAPES: usize = 4000;
const STACK: usize = 512 << 10;

/// Takes profiles until it is stopped.
pub struct Scraper {
    site: Arc<ScrapeShared>,
}

struct ScrapeShared {
    collector: Arc<Collector>,
    jobs: Vec<ScrapeJob>,
    state: Mutex<ScrapeState>,
    /// Threads, also those that end when the answer that they wait for arrives.
    alive: Arc<AtomicUsize>,
    most: usize,
    stop: Stop,
}

#[derive(Default)]
struct ScrapeState {
    /// The scrapes of each source; the first ones are the targets that the jobs' configurations name.
    wanted: Vec<Vec<Scrape>>,
    running: HashMap<Scrape, Arc<Stop>>,
    is_over: bool,
    is_full: bool,
}

impl Scraper {
    /// Starts taking the profiles of the jobs' targets.
    pub fn start(collector: &Arc<Collector>, jobs: Vec<ScrapeJob>) -> std::io::Result<Self> {
        Self::start_with(collector, jobs, MAX_SCRAPES)
    }

    fn start_with(collector: &Arc<Collector>, jobs: Vec<ScrapeJob>, most: usize) -> std::io::Result<Self> {
        let sources: usize = jobs.iter().map(|job| job.sources.len()).sum();
        let state = ScrapeState { wanted: vec![Vec::new(); jobs.len() + sources], ..ScrapeState::default() };
        let (collector, state, alive) = (collector.clone(), Mutex::new(state), Arc::default());
        let site = Arc::new(ScrapeShared { collector, jobs, state, alive, most, stop: Stop::default() });
        for (at, job) in site.jobs.iter().enumerate() {
            let (scrapes, complaint) = scrapes_of(job, &job.targets);
            complaint.iter().for_each(|message| site.note(job, message));
            site.replace(at, scrapes);
        }
        let sources = site
            .jobs
            .iter()
            .enumerate()
            .flat_map(|(job, jobs)| (0..jobs.sources.len()).map(move |at| (job, at)));
        for (slot, (job, at)) in (site.jobs.len()..).zip(sources) {
            let site = site.clone();
            let thread = std::thread::Builder::new().name("discover".to_owned());
            thread.spawn(move || site.watch(slot, &site.jobs[job], at))?;
        }
        Ok(Self { site })
    }

    /// Ends after the requests that are under way; those of CPU profiles are not waited for.
    pub fn stop(self) {
        self.site.stop.stop();
        let mut state = lock(&self.site.state);
        state.is_over = true;
        state.running.drain().for_each(|(_, stop)| stop.stop());
    }
}

/// Returns what a job takes of targets, and a line about those that cannot be asked, which are left out.
fn scrapes_of(job: &ScrapeJob, found: &[LabelSet]) -> (Vec<Scrape>, Option<String>) {
    let mut scrapes = Vec::new();
    let (mut left_out, mut reason) = (0, None);
    for target in found {
        match job.scrapes(target) {
            Ok(more) => scrapes.extend(more),
            Err(message) => {
                left_out += 1;
                reason.get_or_insert(message);
            }
        }
    }
    let complaint =
        reason.map(|reason| format!("{left_out} of {} targets are left out: {reason}", found.len()));
    (scrapes, complaint)
}

impl ScrapeShared {
    fn note(&self, job: &ScrapeJob, message: &str) {
        self.collector.outside.note(&format!("job {}: {message}", job.name));
    }

    /// Asks a source again and again. When it fails, its last list is kept.
    fn watch(&self, slot: usize, job: &ScrapeJob, source: usize) {
        let source = &job.sources[source];
        let (mut last, mut is_failing, mut complained) = (0, false, None);
        loop {
            match source.find(&*self.collector.outside) {
                Ok(found) => {
                    let (scrapes, complaint) = scrapes_of(job, &found);
                    if std::mem::take(&mut is_failing) {
                        self.note(job, &format!("targets are listed again: {}", found.len()));
                    }
                    if let Some(message) = complaint.as_ref().filter(|_| complaint != complained) {
                        self.note(job, message);
                    }
                    (last, complained) = (found.len(), complaint);
                    self.replace(slot, scrapes);
                }
                Err(message) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        self.note(job, &format!("{message}; {last} targets stay as they were"));
                    }
                }
            }
            if !self.stop.wait(source.pause()) {
                return;
            }
        }
    }

    /// Sets the targets of a source: stops scrapes that no source lists any more, and starts new ones.
    fn replace(&self, source: usize, scrapes: Vec<Scrape>) {
        let mut state = lock(&self.state);
        if state.is_over {
            return;
        }
        state.wanted[source] = scrapes;
        let ScrapeState { wanted, running, .. } = &mut *state;
        let wanted: HashSet<&Scrape> = wanted.iter().flatten().collect();
        running.retain(|scrape, stop| {
            let is_wanted = wanted.contains(scrape);
            if !is_wanted {
                stop.stop();
            }
            is_wanted
        });
        let mut is_full = false;
        for scrape in wanted {
            if running.contains_key(scrape) {
                continue;
            }
            match self.start(scrape) {
                Some(stop) => {
                    running.insert(scrape.clone(), stop);
                }
                None => is_full = true,
            }
        }
        if is_full && !std::mem::replace(&mut state.is_full, is_full) {
            let message = format!(
                "more than {} profiles of targets at once; the others are not taken: run several collectors, each \
                 with a part of the targets (relabel_configs, hashmod)",
                self.most
            );
            self.collector.outside.note(&message);
        }
        state.is_full = is_full;
    }

    /// Starts a thread for a scrape, unless there are too many.
    fn start(&self, scrape: &Scrape) -> Option<Arc<Stop>> {
        let alive = Alive::new(&self.alive, self.most)?;
        let stop = Arc::new(Stop::default());
        let (collector, scrape, stopped) = (self.collector.clone(), scrape.clone(), stop.clone());
        let work = move || {
            let _alive = alive;
            scrape.run(&collector, &stopped);
        };
        let thread = std::thread::Builder::new().name("scrape".to_owned()).stack_size(STACK).spawn(work);
        thread.is_ok().then_some(stop)
    }
}

/// Counts a thread while it runs.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let alive = Self(count.clone());
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(alive)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
