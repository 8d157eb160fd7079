//! Takes one profile of one target, again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::collector::{Collector, Offered};
use crate::lock::lock;
use crate::scraper::client::Client;
use crate::series::hash_texts;

/// After failures, the next try comes after the interval, then after twice as long each time, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// A profile that a service refuses (it has no heap profiling, say) is requested again after this long.
const REFUSED_PAUSE: Duration = Duration::from_secs(600);
/// The first requests are spread over this time, or over the interval if it is shorter.
const SPREAD: Duration = Duration::from_secs(5);

/// One profile of one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scrape {
    pub(crate) service: String,
    /// `cpu`, `heap`, or another name below `/debug/pprof/`.
    pub(crate) profile: String,
    /// `HOST:PORT`, for messages.
    pub(crate) address: String,
    pub(crate) url: String,
    /// How long a CPU profile is, and how often others are taken.
    pub(crate) interval: Duration,
    /// How long to wait for an answer, beyond the length of a CPU profile.
    pub(crate) timeout: Duration,
    /// Labels of the profile.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) client: Arc<Client>,
}

/// Says when to stop, and wakes those who wait.
#[derive(Default)]
pub(crate) struct Stop {
    is_over: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Stop {
    /// Waits, and returns whether to continue.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let guard = lock(&self.lock);
        if !self.is_over() && !time.is_zero() {
            drop(self.wake.wait_timeout(guard, time));
        }
        !self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        // Under the lock, so that no thread is between the check and the wait.
        let _guard = lock(&self.lock);
        self.is_over.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }
}

struct Failed {
    message: String,
    /// The service answered, and would answer the same again.
    is_refusal: bool,
}

impl Scrape {
    /// Takes profiles until `stop` says otherwise.
    pub(crate) fn run(&self, collector: &Collector, stop: &Stop) {
        let mut failures = 0u32;
        let mut is_told = false;
        let mut go_on = stop.wait(self.interval.min(SPREAD).mul_f64(self.place(0)));
        while go_on {
            let begin = Instant::now();
            let pause = match self.once(collector) {
                Ok(()) => {
                    if std::mem::take(&mut is_told) {
                        self.note(collector, &format!("{}: available again", self.profile));
                    }
                    failures = 0;
                    self.pause_after(begin.elapsed())
                }
                Err(_) if stop.is_over() => return,
                Err(Failed { message, is_refusal }) => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.note(collector, &message);
                    }
                    failures = failures.saturating_add(1);
                    self.pause_after_failure(failures, is_refusal)
                }
            };
            go_on = stop.wait(pause);
        }
    }

    fn note(&self, collector: &Collector, message: &str) {
        collector.outside.note(&format!("{} ({}): {message}", self.service, self.address));
    }

    /// The service has taken the time of a CPU profile already; one that answers sooner is not asked more often.
    fn pause_after(&self, took: Duration) -> Duration {
        if self.profile == "cpu" { self.interval.saturating_sub(took) } else { self.interval }
    }

    /// Up to a quarter longer, by target: those that failed together do not come back together.
    fn pause_after_failure(&self, failures: u32, is_refusal: bool) -> Duration {
        let usual = self.interval.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
        let pause = if is_refusal { REFUSED_PAUSE } else { usual };
        pause + pause.mul_f64(self.place(failures) / 4.0)
    }

    /// Returns a number from 0 to 1 that is the same for the same target each time, and evenly spread over targets.
    fn place(&self, round: u32) -> f64 {
        let hash = hash_texts([self.url.as_bytes(), &round.to_le_bytes()].into_iter());
        (hash >> 96) as f64 / f64::from(u32::MAX)
    }

    fn once(&self, collector: &Collector) -> Result<(), Failed> {
        let length = if self.profile == "cpu" { self.interval } else { Duration::ZERO };
        let limits = (self.timeout + length, collector.options.caps.body);
        let bytes = self.client.fetch(&*collector.outside, &self.url, &[], limits).map_err(|message| {
            let is_refusal = [" 403 ", " 404 ", " 501 "].iter().any(|status| message.contains(status));
            Failed { message, is_refusal }
        })?;
        // There are thousands of scrapes, and memory for a few profiles.
        let _turn = collector.turns.take();
        collector.accept(&self.offered(bytes)).map_err(|refused| Failed {
            message: format!("{}: {}", self.profile, refused.message),
            is_refusal: false,
        })
    }

    fn offered(&self, bytes: Vec<u8>) -> Offered {
        let name = match &*self.profile {
            "cpu" => Some("process_cpu"),
            "heap" | "allocs" => Some("memory"),
            "mutex" => Some("mutex"),
            "block" => Some("block"),
            "await" => Some("await"),
            "blocked" => Some("blocked"),
            "goroutine" => Some("goroutines"),
            _ => None,
        };
        let name = name.map(str::to_owned);
        Offered {
            service: self.service.clone(),
            labels: self.labels.clone(),
            name,
            bytes,
            ..Offered::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(url: &str, profile: &str) -> Scrape {
        Scrape {
            service: "shop".to_owned(),
            profile: profile.to_owned(),
            address: "h:1".to_owned(),
            url: url.to_owned(),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            labels: Vec::new(),
            client: Arc::default(),
        }
    }

    #[test]
    fn targets_have_their_own_places() {
        let places: Vec<f64> =
            (0..100).map(|at| scrape(&format!("http://h{at}/x"), "cpu").place(0)).collect();
        assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{places:?}");
        let low = places.iter().filter(|place| **place < 0.5).count();
        assert!((20..=80).contains(&low), "{low} of 100 are in the first half");
        assert_eq!(scrape("http://h1/x", "cpu").place(0).to_bits(), places[1].to_bits());
    }

    #[test]
    fn pauses_grow_with_failures_up_to_a_cap() {
        let scrape = scrape("http://h/x", "heap");
        let pauses: Vec<f64> =
            (1..12).map(|failures| scrape.pause_after_failure(failures, false).as_secs_f64()).collect();
        assert!((20.0..=25.0).contains(&pauses[0]) && (40.0..=50.0).contains(&pauses[1]), "{pauses:?}");
        assert!(pauses[3..].iter().all(|pause| (120.0..=150.0).contains(pause)), "{pauses:?}");
        assert!(scrape.pause_after_failure(u32::MAX, true) >= REFUSED_PAUSE);
    }

    #[test]
    fn a_service_that_answers_too_soon_is_not_asked_more_often() {
        let cpu = scrape("http://h/x", "cpu");
        assert_eq!(cpu.pause_after(Duration::from_secs(1)), Duration::from_secs(9));
        assert_eq!(cpu.pause_after(Duration::from_secs(11)), Duration::ZERO);
        assert_eq!(scrape("http://h/x", "heap").pause_after(Duration::from_secs(1)), Duration::from_secs(10));
    }
}
