//! The samples of one capture, in one window or several.

use super::aggregate::{Aggregate, Incoming};
use super::assemble;
use super::facts::Facts;
use super::options::Options;
use crate::clock;
use flamelet_profile::{Profile, Random};
use flamelet_unwind::History;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The samples of one capture. The collector adds them, the owner makes profiles of them.
#[derive(Debug)]
pub(crate) struct SampleReader {
    /// The process whose samples they are, see [`this_process`].
    process: (u32, u32),
    pub(crate) options: Options,
    window: Option<(Duration, usize)>,
    state: Mutex<ReaderState>,
}

#[derive(Debug)]
struct ReaderState {
    /// Shared with the profiles that are being made of them.
    past: VecDeque<Arc<SampleWindow>>,
    current: SampleWindow,
    random: Random,
    /// CPU time that does not make a whole period yet, and the moment of that period whose sample will count.
    carried_nanos: u64,
    counted_at: u64,
    modules: History,
    engine: &'static str,
    comments: Vec<String>,
    is_over: bool,
}

#[derive(Clone, Debug)]
struct SampleWindow {
    samples: Aggregate,
    /// Counts of samples that stand for more than [`SampleWindow::is_coarse`] allows.
    coarse: u64,
    start_unix: i64,
    start: Marks,
    /// As of the last collection.
    end: Marks,
}

/// The clocks and counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The monotonic clock.
    pub(crate) time: u64,
    /// CPU time of the process without the profiler's own thread.
    pub(crate) process_cpu_nanos: u64,
    /// CPU time of the profiler.
    pub(crate) own_cpu_nanos: u64,
    /// CPU time whose samples found no free slot.
    pub(crate) refused_nanos: u64,
}

impl SampleWindow {
    fn new(start: Marks) -> Self {
        let (samples, start_unix) = (Aggregate::default(), clock::unix_nanos());
        Self { samples, coarse: 0, start_unix, start, end: start }
    }

    /// Returns whether a sample stands for so much more CPU time than a period or the kernel's longest tick that what
    /// ran meanwhile is a guess: the ticks landed on other processes.
    fn is_coarse(cpu_nanos: u64, period: u64) -> bool {
        const LONGEST_TICK: u64 = 10_000_000;
        cpu_nanos > 3 * period.max(LONGEST_TICK)
    }
}

/// Returns the number of this process, and how many forks led to it: a child in a namespace of its own may have the number of its
/// parent.
fn this_process() -> (u32, u32) {
    #[cfg(target_os = "linux")]
    let forks = flamelet_unwind::fork::forks();
    #[cfg(not(target_os = "linux"))]
    let forks = 0;
    (std::process::id(), forks)
}

impl SampleReader {
    pub(crate) fn new(
        options: &Options,
        window: Option<(Duration, usize)>,
        engine: &'static str,
        now: Marks,
    ) -> Self {
        let mut state = ReaderState {
            past: VecDeque::new(),
            current: SampleWindow::new(now),
            random: Random::new(now.time),
            carried_nanos: 0,
            counted_at: 0,
            modules: History::default(),
            engine,
            comments: Vec::new(),
            is_over: false,
        };
        state.counted_at = state.random.below(options.period_nanos());
        Self { process: this_process(), options: options.clone(), window, state: Mutex::new(state) }
    }

    /// Returns whether this is the child of a fork and the reader is its parent's: the samples are the parent's, and
    /// the lock may never be released.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.process != this_process()
    }

    fn state(&self) -> MutexGuard<'_, ReaderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample that stands for `cpu_nanos`, or skips it when it is not this reader's turn.
    pub(crate) fn add(&self, sample: &Incoming<'_>, cpu_nanos: u64) {
        let mut state = self.state();
        let period = self.options.period_nanos();
        let count = state.periods_in(cpu_nanos, period);
        if count == 0 || state.is_over {
            return;
        }
        let depth = sample.frames.len().min(self.options.max_depth);
        let is_rooted = sample.is_rooted && depth == sample.frames.len();
        let sample = Incoming { count, is_rooted, frames: &sample.frames[..depth], ..*sample };
        // Windows share the budget.
        let share = self.window.map_or(1, |(_, keep)| keep + 1);
        let budget = self.options.memory_budget / share;
        state.current.samples.add(&sample, self.options.timeline, budget);
        if SampleWindow::is_coarse(cpu_nanos, period) {
            state.current.coarse += count;
        }
    }

    /// Ends a collection: notes the clocks, and starts a new window when the current one is full.
    pub(crate) fn collected(&self, now: Marks) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        state.current.end = now;
        let Some((length, keep)) = self.window else { return };
        if u128::from(now.time - state.current.start.time) >= length.as_nanos() {
            let full = std::mem::replace(&mut state.current, SampleWindow::new(now));
            state.past.push_back(Arc::new(full));
            if state.past.len() > keep {
                state.past.pop_front();
            }
        }
    }

    /// Notes the modules as they are now, and earlier ones.
    pub(crate) fn saw(&self, modules: &History) {
        self.state().modules = modules.clone();
    }

    /// Adds a remark to later profiles.
    pub(crate) fn remark(&self, comment: String) {
        let mut state = self.state();
        if !state.comments.contains(&comment) && state.comments.len() < 32 {
            state.comments.push(comment);
        }
    }

    /// Marks the capture as over: nothing is added any more.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
    }

    /// Returns the profile of everything, or of the last `span`.
    pub(crate) fn profile_of(&self, span: Option<Duration>) -> Profile {
        if self.is_of_another_process() {
            return self.nothing();
        }
        let (windows, engine, modules, comments) = {
            let mut state = self.state();
            let windows = state.windows_of(span);
            (windows, state.engine, state.modules.clone(), state.comments.clone())
        };
        // Without the lock: the collector takes it while it holds the lock of all readers, so the others would lose
        // samples.
        let (first, last) = (&windows[0], &windows[windows.len() - 1]);
        let facts = Facts {
            start_unix: first.start_unix,
            start: first.start.time,
            end: last.end.time,
            engine,
            asked_frequency: self.options.frequency,
            process_cpu_nanos: last.end.process_cpu_nanos.saturating_sub(first.start.process_cpu_nanos),
            own_cpu_nanos: last.end.own_cpu_nanos.saturating_sub(first.start.own_cpu_nanos),
            refused: last.end.refused_nanos.saturating_sub(first.start.refused_nanos)
                / self.options.period_nanos(),
            coarse: windows.iter().map(|window| window.coarse).sum(),
            memory_budget: self.options.memory_budget,
            comments,
        };
        let parts: Vec<&Aggregate> = windows.iter().map(|window| &window.samples).collect();
        assemble::profile(&parts, &facts, &modules)
    }

    /// The profile that the child of a fork gets of its parent's capture.
    fn nothing(&self) -> Profile {
        let comment =
            "this capture belongs to the parent process; after a fork, the child must start its own";
        let facts = Facts {
            start_unix: clock::unix_nanos(),
            engine: "none",
            asked_frequency: self.options.frequency,
            comments: vec![comment.to_owned()],
            ..Facts::default()
        };
        assemble::profile(&[], &facts, &History::default())
    }
}

impl ReaderState {
    /// Returns the windows of the last `span`, or all of them; the current one is last.
    fn windows_of(&mut self, span: Option<Duration>) -> Vec<Arc<SampleWindow>> {
        let end = self.current.end;
        let start = span.map_or(0, |span| {
            let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            end.time.saturating_sub(span)
        });
        // The profile of a capture that is over is made only once.
        let last = if self.is_over {
            std::mem::replace(&mut self.current, SampleWindow::new(end))
        } else {
            self.current.clone()
        };
        let past = self.past.iter().filter(|window| window.end.time > start).cloned();
        past.chain(std::iter::once(Arc::new(last))).collect()
    }

    /// Returns how many of a reader's periods `cpu_nanos` make. Remainders are laid end to end, and for each period
    /// that they fill, the sample counts that contains a random moment of it. So the sum is right, and every sample
    /// has a fair chance, whatever the rhythm in which threads and stacks take turns.
    fn periods_in(&mut self, cpu_nanos: u64, period: u64) -> u64 {
        let (whole, part) = (cpu_nanos / period, cpu_nanos % period);
        let (start, end) = (self.carried_nanos, self.carried_nanos + part);
        let mut count = whole + u64::from((start..end).contains(&self.counted_at));
        self.carried_nanos = end;
        if end >= period {
            self.carried_nanos = end - period;
            self.counted_at = self.random.below(period);
            count += u64::from(self.counted_at < self.carried_nanos);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::aggregate::ThreadKey;
    use crate::labels::LabelSet;
    use flamelet_unwind::Era;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    const SECOND: u64 = 1_000_000_000;

    fn sample(frames: &[u64]) -> Incoming<'_> {
        static NO_LABELS: LabelSet = LabelSet::EMPTY;
        let thread = ThreadKey { tid: 1, name: [0; 16] };
        Incoming {
            thread,
            time: 0,
            labels: &NO_LABELS,
            frames,
            era: Era::default(),
            is_rooted: true,
            count: 0,
        }
    }

    fn at(seconds: u64) -> Marks {
        Marks { time: seconds * SECOND, process_cpu_nanos: seconds * SECOND, ..Marks::default() }
    }

    #[test]
    fn a_slow_reader_of_a_fast_sampler_gets_its_share() {
        let reader = SampleReader::new(&Options::with_frequency(100), None, "timer", at(1));
        for _ in 0..100_000 {
            reader.add(&sample(&[1, 2]), 1_000_000);
        }
        reader.collected(at(101));
        let total = reader.profile_of(None).total(0);
        assert!((9_700..10_300).contains(&total), "{total}");
    }

    /// Returns the percentages of `threads` that take turns, each sample standing for `part` of the reader's period.
    fn shares(threads: i32, part: f64) -> Vec<f64> {
        const ROUNDS: i32 = 3000;
        let reader = SampleReader::new(&Options::with_frequency(50), None, "timer", at(1));
        let cpu_nanos = (20_000_000.0 * part) as u64;
        for turn in 0..threads * ROUNDS {
            let thread = ThreadKey { tid: turn % threads, name: [b'a' + (turn % threads) as u8; 16] };
            reader.add(&Incoming { thread, ..sample(&[1, 2]) }, cpu_nanos);
        }
        let profile = reader.profile_of(None);
        let total = profile.total(1) as f64 / 20_000_000.0;
        let expected = f64::from(threads * ROUNDS) * part;
        assert!((total - expected).abs() <= 1.0, "{total} of {expected}");
        profile.samples().map(|sample| sample.values[1] as f64 * 100.0 / profile.total(1) as f64).collect()
    }

    #[test]
    fn threads_in_step_with_a_slower_reader_all_have_their_share() {
        for (threads, part) in [(2, 0.5), (3, 2.0 / 3.0), (2, 1.5), (2, 0.25), (3, 1.0), (4, 0.75)] {
            let shares = shares(threads, part);
            let fair = 100.0 / f64::from(threads);
            assert_eq!(shares.len(), threads as usize, "{part} of a period: {shares:?}");
            let is_fair = shares.iter().all(|share| (share - fair).abs() < 4.0);
            assert!(is_fair, "{part} of a period: {shares:?}");
        }
    }

    #[test]
    fn whole_periods_are_counted_exactly() {
        let reader = SampleReader::new(&Options::with_frequency(1000), None, "timer", at(1));
        for weight in 1..=100 {
            reader.add(&sample(&[1, 2]), weight * 1_000_000);
        }
        let profile = reader.profile_of(None);
        assert_eq!((profile.total(0), profile.total(1)), (100, 5_050_000_000));
        let squares = (1..=100).map(|weight| weight * weight).sum::<u64>() as f64 * 1e12;
        assert_eq!(profile.observed(1)[0].squares, squares);
    }

    #[test]
    fn coarse_samples_are_reported() {
        let comments = |coarse: u64| {
            let reader = SampleReader::new(&Options::with_frequency(1000), None, "timer", at(1));
            (0..100 - coarse).for_each(|_| reader.add(&sample(&[1, 2]), 30_000_000));
            (0..coarse).for_each(|_| reader.add(&sample(&[1, 2]), 31_000_000));
            reader.profile_of(None).comments().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(!comments(9).iter().any(|comment| comment.contains("rests on few")));
        let said = comments(50);
        assert!(
            matches!(&said[..], [one] if one.starts_with("50 % of the CPU time rests on few")),
            "{said:?}"
        );
        // Of all samples that were due, although most of them found no room.
        let options = Options { memory_budget: 4 << 10, ..Options::with_frequency(1000) };
        let reader = SampleReader::new(&options, None, "timer", at(1));
        (0..1000).for_each(|number| reader.add(&sample(&[number, 1]), 31_000_000));
        let full = reader.profile_of(None);
        assert!(remarks(&full).iter().any(|one| one.starts_with("100 % of the CPU time rests on few")));
    }

    #[test]
    fn a_timer_that_is_slower_than_asked_says_so() {
        let reader = SampleReader::new(&Options::with_frequency(1000), None, "timer", Marks::default());
        (0..250).for_each(|_| reader.add(&sample(&[1, 2]), 4_000_000));
        reader.collected(at(1));
        let profile = reader.profile_of(None);
        let said = remarks(&profile);
        let expected = "250 samples per second of CPU time instead of 1000";
        assert!(matches!(said[..], [one] if one.starts_with(expected) && one.contains("`perf`")), "{said:?}");
        assert_eq!(profile.total_observed(1).effective(1e9), 250.0);
    }

    /// A reader with this budget after this many samples of ten stacks, and then this many samples with a stack each.
    fn reader_with(
        memory_budget: usize,
        window: Option<(Duration, usize)>,
        known: u64,
        new: u64,
    ) -> SampleReader {
        let options = Options { memory_budget, ..Options::with_frequency(1000) };
        let reader = SampleReader::new(&options, window, "timer", at(1));
        (0..known).for_each(|number| reader.add(&sample(&[number % 10, 1]), 1_000_000));
        (0..new).for_each(|number| reader.add(&sample(&[1000 + number, 1]), 1_000_000));
        reader
    }

    fn remarks(profile: &Profile) -> Vec<&str> {
        profile.comments().collect()
    }

    #[test]
    fn a_profile_says_what_did_not_fit() {
        let whole = reader_with(64 << 10, None, 100, 0).profile_of(None);
        assert!(whole.timeline.is_some() && remarks(&whole).is_empty());

        let long = reader_with(64 << 10, None, 100_000, 0).profile_of(None);
        assert_eq!(long.total(0), 100_000);
        assert!(long.timeline.is_none());
        let said = remarks(&long);
        assert!(
            matches!(said[..], [one] if one.starts_with("the timeline did not fit into the memory budget of 65536 bytes")),
            "{said:?}"
        );

        let reader = reader_with(64 << 10, None, 100_000, 10_000);
        (0..100).for_each(|_| reader.add(&sample(&[7, 1]), 1_000_000));
        let varied = reader.profile_of(None);
        let lost = varied.quality.map_or(0, |quality| quality.lost);
        assert!(lost > 5_000 && varied.total(0) as u64 + lost == 110_100, "{lost}");
        let of_seven =
            varied.samples().find(|sample| varied.location(varied.stack(sample.stack)[0]).address == 7);
        assert_eq!(of_seven.map(|sample| sample.values[0]), Some(10_100));
        let expected = format!("{lost} samples did not fit into the memory budget of 65536 bytes");
        assert!(
            remarks(&varied).iter().any(|remark| remark.starts_with(&expected)),
            "{:?}",
            remarks(&varied)
        );
    }

    #[test]
    fn windows_share_the_budget_and_go_on_counting() {
        // 16 KB per window.
        let reader = reader_with(64 << 10, Some((Duration::from_secs(1000), 3)), 100_000, 0);
        let profile = reader.profile_of(None);
        assert_eq!((profile.total(0), profile.quality.map(|quality| quality.lost)), (100_000, Some(0)));
        assert!(profile.timeline.is_none());
    }

    /// The collector adds samples to all readers, one after the other: a reader that made it wait would cost all of
    /// them samples.
    #[test]
    fn samples_can_be_added_while_a_profile_is_made() {
        let reader = reader_with(64 << 20, None, 0, 100_000);
        let (is_making, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (looks, free) = (AtomicU64::new(0), AtomicU64::new(0));
        let mostly_free = || {
            is_making.store(true, Ordering::SeqCst);
            drop(reader.profile_of(None));
            is_making.store(false, Ordering::SeqCst);
            let (looks, free) = (looks.swap(0, Ordering::SeqCst), free.swap(0, Ordering::SeqCst));
            looks > 100 && free > looks / 2
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    if is_making.load(Ordering::SeqCst) {
                        looks.fetch_add(1, Ordering::SeqCst);
                        free.fetch_add(u64::from(reader.state.try_lock().is_ok()), Ordering::SeqCst);
                    }
                }
            });
            // Not every time: other processes may have the machine.
            let is_free = (0..20).any(|_| mostly_free());
            is_over.store(true, Ordering::SeqCst);
            assert!(is_free, "the lock is held while a profile is made");
        });
    }

    #[test]
    fn the_last_seconds_are_cut_at_windows_and_old_windows_go() {
        let options = Options { timeline: false, ..Options::with_frequency(1) };
        let reader = SampleReader::new(&options, Some((Duration::from_secs(10), 3)), "timer", at(100));
        for second in 100..=195 {
            reader.add(&sample(&[second]), SECOND);
            reader.collected(at(second));
        }
        // Windows start at 170, 180 and 190 (the three whole ones before the current one are kept).
        let last = |seconds| reader.profile_of(Some(Duration::from_secs(seconds))).total(0);
        assert_eq!(last(1), 5);
        assert_eq!(last(12), 15);
        assert_eq!(last(3600), 35);
    }

    #[test]
    fn a_stack_deeper_than_the_reader_wants_keeps_its_leaf_side() {
        let options = Options { max_depth: 2, ..Options::with_frequency(1) };
        let reader = SampleReader::new(&options, None, "timer", at(1));
        reader.add(&sample(&[7, 8, 9]), SECOND);
        let profile = reader.profile_of(None);
        assert_eq!(profile.stack(profile.sample(0).stack).len(), 3, "two frames and the mark");
        assert_eq!(profile.quality.map(|quality| quality.truncated), Some(1));
    }
}
