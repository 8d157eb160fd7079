//! The one sampler of the process: starts with its first reader, ends with its last.
//!
//! Locks, in the order in which they may be taken: the loader's (inside `live::refresh`), [`CONTROL`], a
//! reader's own. A handler takes none. Nothing that could wait for the loader runs under `CONTROL`.
//!
//! The child of a `fork` has neither timers nor a collector, and perhaps a lock that is never released, so it gets a
//! `CONTROL` of its own. The parent's captures are over there, and nothing reads them.

use super::aggregate::{Incoming, ThreadKey};
use super::budget::{Change, CpuTotals, OverheadBudget, SIGNAL_NANOS};
use super::engine::{self, Engine};
use super::handler::{self, COUNTERS};
use super::options::Options;
use super::pace::{Look, Pace, Review};
use super::pool::Pool;
use super::sample_reader::{Marks, SampleReader};
use super::status::Status;
use crate::clock;
use crate::labels::{self, LabelSet};
use crate::loaded_modules;
use crate::{Error, ErrorKind, Result};
use crate::{own_threads, threads};
use flamelet_unwind::fork::{self, Handlers, Part, PerProcess};
use flamelet_unwind::live;
use flamelet_unwind::{History, Modules};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often to decide about the overhead and to look at slow-changing things.
const REVIEW_NANOS: u64 = 1_000_000_000;
/// How often to check whether so much is missing that short-lived threads must be the reason.
const GLANCE_NANOS: u64 = 200_000_000;
/// What a kernel with rare ticks may owe each thread, whatever the period.
const LONGEST_TICK_NANOS: u64 = 10_000_000;
/// How long a lowered frequency applies to later captures.
const LOWERED_NANOS: u64 = 60_000_000_000;

static CONTROL: PerProcess<Mutex<Control>> = PerProcess::new();
static ENDED: Condvar = Condvar::new();
/// The CPU time of all collector threads so far.
static COLLECTOR_NANOS: AtomicU64 = AtomicU64::new(0);

struct Control {
    /// Whether what this process' parent left behind is still to be forgotten.
    has_parent: bool,
    readers: Vec<Arc<SampleReader>>,
    running: Option<Running>,
    /// Counts starts, so that a collector knows when it is no longer wanted.
    generation: u64,
    pool: Option<Box<Pool>>,
    /// Pools that a handler may still hold.
    #[allow(clippy::vec_box, reason = "handlers know the address")]
    retired: Vec<Box<Pool>>,
    modules: History,
    /// The list that was learned last.
    learned: Option<Arc<Modules>>,
    collected: Collected,
    /// Set while an overhead budget holds something down, also from one capture to the next.
    lowered: Option<Lowered>,
}

#[derive(Clone, Copy)]
struct Lowered {
    frequency: u32,
    pace: Pace,
    /// When this was last decided.
    time: u64,
}

/// What all samples so far add up to.
#[derive(Default)]
struct Collected {
    samples: u64,
    truncated: u64,
    /// CPU time that they stand for.
    sampled_nanos: u64,
    /// Time spent in the handler.
    handler_nanos: u64,
    /// The part of the collector's CPU time that went to them.
    collector_nanos: u64,
}

struct Running {
    engine: Box<dyn Engine>,
    frequency: u32,
    budget: OverheadBudget,
    pace: Pace,
    /// When it last looked for threads, on the monotonic clock.
    looked_at: u64,
    /// When it was last reviewed, and how much CPU time samples stood for then.
    reviewed: Marks,
    reviewed_sampled_nanos: u64,
    /// The same for the last glance.
    glanced: Marks,
    glanced_sampled_nanos: u64,
}

impl Running {
    fn period_nanos(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency.max(1))
    }

    /// Follows the threads that started and ended, when it is time to, unless signals would go to another handler.
    /// Returns how many are new.
    fn follow_threads(&mut self) -> usize {
        if !handler::is_installed() {
            self.engine.rest();
            return 0;
        }
        let now = clock::monotonic_nanos();
        if !self.pace.is_look_due(Duration::from_nanos(now.saturating_sub(self.looked_at))) {
            return 0;
        }
        self.looked_at = now;
        self.engine.update(self.period_nanos())
    }
}

/// Adds a reader, starting the sampler if it is the first.
pub(super) fn attach(options: &Options, window: Option<(Duration, usize)>) -> Result<Arc<SampleReader>> {
    loaded_modules::refresh()?;
    let mut control = control();
    control.learn_modules();
    let remarks = control.run(options)?;
    let Some(running) = &control.running else {
        return Err(Error::new(ErrorKind::Denied, "the sampler did not start"));
    };
    let engine = running.engine.choice();
    // Earlier samples belong to the other readers.
    control.collect();
    let reader = Arc::new(SampleReader::new(options, window, engine.name(), control.marks()));
    reader.saw(&control.modules);
    remarks.into_iter().for_each(|remark| reader.remark(remark));
    control.readers.push(reader.clone());
    control.adjust_frequency();
    Ok(reader)
}

/// Removes a reader, ending the sampler if it was the last.
pub(super) fn detach(reader: &Arc<SampleReader>) {
    if reader.is_of_another_process() {
        return;
    }
    let mut control = control();
    control.catch_up();
    // Captures shorter than a review have a budget, too.
    let now = control.marks();
    control.keep_budget(now);
    reader.end();
    control.readers.retain(|other| !Arc::ptr_eq(other, reader));
    if control.readers.is_empty() {
        // First, so that its last signals are known to be its own.
        control.running = None;
        handler::deactivate();
        handler::forget_collector();
        control.generation += 1;
        ENDED.notify_all();
        labels::no_records();
    } else {
        control.adjust_frequency();
    }
}

/// Samples the calling thread from now on, if the sampler runs. Meant for the start of a thread: threads
/// that do not call this are looked for, and may have ended by then.
pub fn thread_began() {
    let mut control = control();
    if let Some(running) = &mut control.running
        && handler::is_installed()
    {
        running.engine.thread_began(threads::this_thread());
    }
}

/// Hands all samples taken so far to their readers.
pub(super) fn flush() {
    control().catch_up();
}

pub(super) fn status() -> Status {
    let mut control = control();
    control.catch_up();
    Status {
        engine: control.running.as_ref().map(|running| running.engine.choice()),
        frequency: control.running.as_ref().map_or(0, |running| running.frequency),
        look_interval: control
            .running
            .as_ref()
            .map_or(Duration::ZERO, |running| running.pace.look_interval()),
        readers: control.readers.len(),
        samples: control.collected.samples,
        lost: COUNTERS.refused.load(Ordering::Relaxed),
        truncated: control.collected.truncated,
        handler_nanos: control.collected.handler_nanos,
        own_cpu_nanos: control.own_cpu_nanos(),
    }
}

fn control() -> MutexGuard<'static, Control> {
    let control = CONTROL.get(|has_parent| {
        fork::watch(Part::Sampler, &AT_FORK);
        Mutex::new(Control::new(has_parent))
    });
    let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut control.has_parent) {
        forget_parent();
        handler::forget_perf_events();
    }
    control
}

static AT_FORK: Handlers = Handlers::in_child(|| {
    forget_parent();
    CONTROL.disown();
});

/// In a child, before it takes samples itself: forgets what it inherited.
fn forget_parent() {
    handler::forget_parent();
    engine::forget_parent();
    COLLECTOR_NANOS.store(0, Ordering::Relaxed);
}

impl Control {
    fn new(has_parent: bool) -> Self {
        Self {
            has_parent,
            readers: Vec::new(),
            running: None,
            generation: 0,
            pool: None,
            retired: Vec::new(),
            modules: History::default(),
            learned: None,
            collected: Collected::default(),
            lowered: None,
        }
    }

    /// Returns the CPU time of the profiler itself, as of the last collection.
    fn own_cpu_nanos(&self) -> u64 {
        let signals = self.collected.samples + COUNTERS.ignored.load(Ordering::Relaxed);
        let collector = COLLECTOR_NANOS.load(Ordering::Relaxed);
        collector + self.collected.handler_nanos + signals * SIGNAL_NANOS
    }

    fn marks(&self) -> Marks {
        let collector = COLLECTOR_NANOS.load(Ordering::Relaxed);
        Marks {
            time: clock::monotonic_nanos(),
            process_cpu_nanos: clock::process_cpu_nanos().saturating_sub(collector),
            own_cpu_nanos: self.own_cpu_nanos(),
            refused_nanos: COUNTERS.refused_nanos.load(Ordering::Relaxed),
        }
    }

    /// Starts the engine and the collector unless they run; returns remarks for the new reader's profile.
    fn run(&mut self, options: &Options) -> Result<Vec<String>> {
        if let Some(running) = &self.running {
            return Ok(self.ignored_options(running, options));
        }
        self.prepare_pool(options)?;
        let period = options.period_nanos();
        self.generation += 1;
        let started = self.start_collector().and_then(|()| {
            handler::install(options.signal)?;
            own_threads::admit(handler::signal());
            labels::expect_records();
            engine::start(options.engine, options.signal, period)
        });
        let (engine, remarks) = started.inspect_err(|_| {
            self.generation += 1;
            ENDED.notify_all();
            labels::no_records();
        })?;
        handler::activate(engine.choice(), period);
        let now = self.marks();
        let budget = OverheadBudget::new(self.totals(now));
        let frequency = options.frequency;
        let reviewed_sampled_nanos = self.collected.sampled_nanos;
        let pace = Pace::new().with_self_arming_threads(engine.threads_arm_themselves());
        self.running = Some(Running {
            engine,
            frequency,
            budget,
            pace,
            looked_at: now.time,
            reviewed: now,
            reviewed_sampled_nanos,
            glanced: now,
            glanced_sampled_nanos: reviewed_sampled_nanos,
        });
        Ok(remarks)
    }

    /// Returns remarks about what the first reader has already decided.
    fn ignored_options(&self, running: &Running, options: &Options) -> Vec<String> {
        let mut remarks = Vec::new();
        let (asked, used) = (options.engine, running.engine.choice());
        if asked != used && asked != super::Engine::Auto {
            let (asked, used) = (asked.name(), used.name());
            remarks.push(format!("engine {asked} was requested while {used} was running"));
        }
        let (slots, depth) = self.pool.as_ref().map_or((0, 0), |pool| (pool.slot_count(), pool.depth()));
        for (name, asked, used) in
            [("max_depth", options.max_depth, depth), ("buffered_samples", options.buffered_samples, slots)]
        {
            if asked > used {
                remarks.push(format!("{name} = {asked} was requested while {used} was in use"));
            }
        }
        remarks
    }

    /// Makes a pool, or a larger one if needed; otherwise the pool stays from capture to capture.
    fn prepare_pool(&mut self, options: &Options) -> Result<()> {
        if handler::no_handler_is_running() {
            self.retired.clear();
        }
        let known = self.pool.as_ref().map_or((0, 0), |pool| (pool.slot_count(), pool.depth()));
        if known.0 >= options.buffered_samples && known.1 >= options.max_depth {
            return Ok(());
        }
        let (slots, depth) = (known.0.max(options.buffered_samples), known.1.max(options.max_depth));
        let pool = Pool::new(slots, depth).map_err(|error| {
            let message = format!(
                "no memory for buffered_samples = {slots} of max_depth = {depth} frames: {error}; ask for fewer"
            );
            Error::new(ErrorKind::Denied, message)
        })?;
        let pool = Box::new(pool);
        handler::use_pool(&pool);
        let old = self.pool.replace(pool);
        self.retired.extend(old);
        Ok(())
    }

    fn start_collector(&self) -> Result<()> {
        const STACK_SIZE: usize = 256 << 10;
        let generation = self.generation;
        let told = Arc::new((Mutex::new(None), Condvar::new()));
        let tell = told.clone();
        let spawned = own_threads::spawn_with_stack("flamelet", Some(STACK_SIZE), move || {
            *tell.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(threads::local_memory());
            tell.1.notify_one();
            drop(tell);
            collect_until_ended(generation);
        });
        spawned.map_err(|error| {
            Error::new(ErrorKind::Denied, format!("the collector thread cannot start: {error}"))
        })?;
        check_local_memory(&told)
    }

    /// Takes the full slots and hands each sample to every reader.
    fn collect(&mut self) {
        let Some(pool) = &self.pool else { return };
        let (readers, collected, running) = (&self.readers, &mut self.collected, &mut self.running);
        let era = self.modules.era();
        let mut labels = LabelSet::EMPTY;
        pool.drain(|record, frames| {
            collected.samples += 1;
            collected.truncated += u64::from(!record.is_rooted);
            let owed = running.as_mut().map_or(0, |running| running.engine.take_owed(record.tid));
            let cpu_nanos = record.cpu_nanos + owed;
            collected.sampled_nanos += cpu_nanos;
            collected.handler_nanos += u64::from(record.handler_nanos);
            if labels.id() != record.labels {
                labels = labels::resolve(record.labels);
            }
            let sample = Incoming {
                thread: ThreadKey { tid: record.tid, name: record.name },
                time: record.time,
                labels: &labels,
                frames,
                era,
                is_rooted: record.is_rooted,
                count: 0,
            };
            for reader in readers {
                reader.add(&sample, cpu_nanos);
            }
        });
        let now = self.marks();
        for reader in &self.readers {
            reader.collected(now);
        }
    }

    /// Handles everything so far: what was loaded, and the samples.
    fn catch_up(&mut self) {
        self.learn_modules();
        self.collect();
    }

    /// Notes new modules.
    fn learn_modules(&mut self) {
        let now = live::modules();
        if self.learned.as_ref().is_some_and(|known| Arc::ptr_eq(known, &now)) {
            return;
        }
        // Earlier samples belong to what was loaded before.
        self.collect();
        self.modules.learn(&now);
        self.learned = Some(now);
        for reader in &self.readers {
            reader.saw(&self.modules);
        }
    }

    /// One round of the collector.
    fn tick(&mut self) {
        let (before, begin) = (self.collected.samples, clock::thread_cpu_nanos());
        self.catch_up();
        self.collected.collector_nanos += clock::thread_cpu_nanos() - begin;
        let samples = (self.collected.samples - before) as usize;
        // Afterwards: what ended threads were owed went to their last samples.
        let born = self.running.as_mut().map_or(0, Running::follow_threads);
        let slots = self.pool.as_ref().map_or(0, |pool| pool.slot_count());
        if let Some(running) = &mut self.running {
            running.pace.looked(Look { samples, slots, born });
        }
        self.review();
    }

    /// Once a second: the overhead, the labels, the disposition of the signal.
    fn review(&mut self) {
        let now = self.marks();
        let Some(running) = &mut self.running else { return };
        if now.time - running.glanced.time >= GLANCE_NANOS {
            running.pace.glanced(Review {
                process_nanos: now.process_cpu_nanos.saturating_sub(running.glanced.process_cpu_nanos),
                sampled_nanos: self.collected.sampled_nanos - running.glanced_sampled_nanos,
                period_nanos: running.period_nanos().max(LONGEST_TICK_NANOS),
                threads: running.engine.threads(),
            });
            running.glanced = now;
            running.glanced_sampled_nanos = self.collected.sampled_nanos;
        }
        if now.time - running.reviewed.time < REVIEW_NANOS {
            return;
        }
        running.pace.reviewed(Review {
            process_nanos: now.process_cpu_nanos.saturating_sub(running.reviewed.process_cpu_nanos),
            sampled_nanos: self.collected.sampled_nanos - running.reviewed_sampled_nanos,
            period_nanos: running.period_nanos(),
            threads: running.engine.threads(),
        });
        running.reviewed = now;
        running.reviewed_sampled_nanos = self.collected.sampled_nanos;
        let unreached = running.engine.unreached();
        labels::collect_garbage();
        if unreached > 0 {
            self.remark(&format!("{unreached} threads could not be sampled (a limit of the kernel)"));
        }
        if !handler::is_installed() {
            let name = handler::choice().name();
            self.remark(&format!("the program replaced the handler of {name}: samples are missing"));
        }
        self.keep_budget(now);
    }

    fn remark(&self, text: &str) {
        for reader in &self.readers {
            reader.remark(text.to_string());
        }
    }

    fn asked_frequency(&self) -> u32 {
        self.readers.iter().map(|reader| reader.options.frequency).max().unwrap_or(1)
    }

    /// After readers came or went: sets the frequency that the fastest of them wants, unless that was found to be too
    /// much.
    fn adjust_frequency(&mut self) {
        let asked = self.asked_frequency();
        let now = clock::monotonic_nanos();
        let lowered = self.lowered.filter(|lowered| now - lowered.time < LOWERED_NANOS);
        let (mut frequency, mut slowed) = (asked, None);
        if let (Some(lowered), Some(percent)) = (lowered, self.smallest_budget()) {
            self.remark_lowered(lowered, asked, percent);
            (frequency, slowed) = (lowered.frequency.min(asked), Some(lowered.pace));
        }
        if let Some(running) = &mut self.running {
            running.pace.slow_down_as(slowed.as_ref());
        }
        self.use_frequency(frequency);
    }

    /// Does less of what costs when the profiler needs more than the smallest budget of its readers.
    fn keep_budget(&mut self, now: Marks) {
        let (asked, totals) = (self.asked_frequency(), self.totals(now));
        let Some(percent) = self.smallest_budget() else { return };
        let Some(running) = &mut self.running else { return };
        let room = running.pace.room(running.frequency, asked);
        let change = running.budget.decide(totals, percent, room);
        let mut frequency = running.frequency.min(asked);
        match change {
            Change::SampleLess => frequency = (frequency / 2).max(1),
            Change::SampleMore => frequency = frequency.saturating_mul(2).min(asked),
            Change::LookLess => running.pace.look_less(),
            Change::LookMore => running.pace.look_more(),
            Change::None => {}
        }
        let lowered = Lowered { frequency, pace: running.pace, time: now.time };
        let is_lowered = frequency < asked || lowered.pace.is_slowed();
        self.lowered = is_lowered.then_some(lowered);
        self.use_frequency(frequency);
        if matches!(change, Change::SampleLess | Change::LookLess) {
            self.remark_lowered(lowered, asked, percent);
        }
    }

    /// Returns what the profiler used, by purpose.
    fn totals(&self, now: Marks) -> CpuTotals {
        let looking_nanos =
            COLLECTOR_NANOS.load(Ordering::Relaxed).saturating_sub(self.collected.collector_nanos);
        CpuTotals {
            time_nanos: now.time,
            process_nanos: now.process_cpu_nanos,
            sampling_nanos: now.own_cpu_nanos.saturating_sub(looking_nanos),
            looking_nanos,
        }
    }

    fn smallest_budget(&self) -> Option<f64> {
        let budgets = self.readers.iter().filter_map(|reader| reader.options.overhead_budget);
        budgets.min_by(f64::total_cmp)
    }

    fn remark_lowered(&self, Lowered { frequency, pace, .. }: Lowered, asked: u32, percent: f64) {
        if frequency < asked {
            self.remark(&format!(
                "the frequency was lowered to {frequency} Hz to stay below {percent} % overhead"
            ));
        }
        if pace.is_slowed() {
            let interval = pace.look_interval().as_millis();
            self.remark(&format!(
                "new threads were looked for every {interval} ms only, to stay below {percent} % overhead: threads that \
                 live shorter may have no samples"
            ));
        }
    }

    fn use_frequency(&mut self, frequency: u32) {
        if let Some(running) = &mut self.running
            && running.frequency != frequency
        {
            running.frequency = frequency;
            let period = running.period_nanos();
            running.engine.update(period);
            handler::use_period(period);
        }
    }
}

/// The handler uses thread-local memory, on threads that have not used it before. In a library that was loaded by
/// `dlopen` that memory does not exist from the start of a thread: the C library would allocate it inside the
/// handler, which may have interrupted the allocator. Another thread reports where its memory is, which shows whether
/// this is the case.
fn check_local_memory(another_thread: &(Mutex<Option<u64>>, Condvar)) -> Result<()> {
    /// The other thread waits for the loader (as long as this one does) only where the memory is not static.
    const PATIENCE: Duration = Duration::from_secs(10);
    static IS_STATIC: AtomicBool = AtomicBool::new(false);
    if IS_STATIC.load(Ordering::Relaxed) || live::thread_pointer() == 0 {
        return Ok(());
    }
    let (place, told) = another_thread;
    let place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = told.wait_timeout_while(place, PATIENCE, |place| place.is_none());
    if *waited.unwrap_or_else(PoisonError::into_inner).0 == Some(threads::local_memory()) {
        IS_STATIC.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let message = "CPU sampling is not safe in a library that is loaded by dlopen, because its thread-local memory is \
                   not there when a signal comes: load the library with the program (LD_PRELOAD=its file), or link \
                   flamelet into the program itself";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The collector thread.
fn collect_until_ended(generation: u64) {
    {
        let control = control();
        if control.generation != generation {
            return;
        }
        handler::become_collector();
        own_threads::let_samples_in();
    }
    let mut counted = 0;
    loop {
        // Outside the lock: a thread that holds the loader's lock may be waiting for ours.
        let _ = live::refresh();
        let mut control = control();
        if control.generation != generation {
            return;
        }
        control.tick();
        let pause = control.running.as_ref().map_or(Pace::new().pause(), |running| running.pace.pause());
        let used = clock::thread_cpu_nanos();
        COLLECTOR_NANOS.fetch_add(used - counted, Ordering::Relaxed);
        counted = used;
        let waited = ENDED.wait_timeout(control, pause).unwrap_or_else(PoisonError::into_inner);
        if waited.0.generation != generation {
            return;
        }
    }
}
