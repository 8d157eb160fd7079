//! Keeps the profiler's own CPU time below a share of the process', or of one core, by doing less of what costs.
//!
//! Two things cost CPU time: samples (the signals, and collecting them), which a lower frequency makes fewer; and
//! looking for threads that started or ended, which does not depend on the frequency. Programs that start threads all
//! the time pay for the latter.

/// What the kernel spends to deliver one signal and return from it: the part of a sample's cost that the
/// handler cannot measure.
pub(super) const SIGNAL_NANOS: u64 = 3_000;

/// Shares of less time than this mean nothing.
const ENOUGH_NANOS: u64 = 200_000_000;

/// What was used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTotals {
    /// Elapsed time.
    pub(super) time_nanos: u64,
    /// CPU time of the process.
    pub(super) process_nanos: u64,
    /// CPU time that the profiler spent on samples.
    pub(super) sampling_nanos: u64,
    /// CPU time that the profiler spent looking for threads, and on anything else that does not depend on the
    /// frequency.
    pub(super) looking_nanos: u64,
}

/// What can still be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Whether the frequency can be lowered, or is already below the requested one.
    pub(super) samples_less: bool,
    pub(super) samples_more: bool,
    /// Whether looks can be made rarer, or are already rarer than they should be.
    pub(super) looks_less: bool,
    pub(super) looks_more: bool,
}

/// What to change: twice as much of one of them, or half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    SampleLess,
    SampleMore,
    LookLess,
    LookMore,
}

/// Decides about once a second what to change.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverheadBudget {
    last: CpuTotals,
}

impl OverheadBudget {
    /// Starts watching, at these totals.
    pub(super) fn new(totals: CpuTotals) -> Self {
        Self { last: totals }
    }

    /// Returns what to change, given the totals now: when the profiler used more than `percent` since the last
    /// decision, the larger part of its cost is halved; when it used less than a quarter of that, what was halved is
    /// doubled again.
    ///
    /// The share is of the process' CPU time, or of one core where the process uses less than that: otherwise what
    /// the collector needs at any frequency would lower the frequency of an idle service for nothing.
    pub(super) fn decide(&mut self, now: CpuTotals, percent: f64, room: Room) -> Change {
        let since = |of: fn(&CpuTotals) -> u64| of(&now).saturating_sub(of(&self.last));
        let whole = since(|totals| totals.process_nanos).max(since(|totals| totals.time_nanos));
        if whole < ENOUGH_NANOS {
            return Change::None;
        }
        let share = |nanos: u64| nanos as f64 / whole as f64 * 100.0;
        let (sampling, looking) =
            (share(since(|totals| totals.sampling_nanos)), share(since(|totals| totals.looking_nanos)));
        self.last = now;
        if sampling + looking > percent {
            room.less(sampling, looking, percent)
        } else if sampling + looking < percent / 4.0 {
            room.more()
        } else {
            Change::None
        }
    }
}

impl Room {
    fn less(self, sampling: f64, looking: f64, percent: f64) -> Change {
        if self.looks_less && (looking >= sampling || !self.samples_less) {
            return Change::LookLess;
        }
        // Fewer samples are a loss, so they must save enough.
        let is_worth_it = sampling > percent / 4.0;
        if self.samples_less && is_worth_it { Change::SampleLess } else { Change::None }
    }

    fn more(self) -> Change {
        match self {
            Self { samples_more: true, .. } => Change::SampleMore,
            Self { looks_more: true, .. } => Change::LookMore,
            _ => Change::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::{Look, Pace, Review};
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ALL: Room = Room { samples_less: true, samples_more: true, looks_less: true, looks_more: true };
    const AS_ASKED: Room = Room { samples_more: false, looks_more: false, ..ALL };

    /// The totals after this many seconds of a process that keeps one core busy.
    fn busy(seconds: u64, sampling_nanos: u64, looking_nanos: u64) -> CpuTotals {
        let nanos = seconds * SECOND;
        CpuTotals { time_nanos: nanos, process_nanos: nanos, sampling_nanos, looking_nanos }
    }

    #[test]
    fn the_larger_part_is_halved_and_comes_back() {
        let mut budget = OverheadBudget::new(CpuTotals::default());
        let milli = SECOND / 1000;
        assert_eq!(budget.decide(busy(1, 30 * milli, milli), 1.0, AS_ASKED), Change::SampleLess);
        assert_eq!(budget.decide(busy(2, 31 * milli, 31 * milli), 1.0, AS_ASKED), Change::LookLess);
        assert_eq!(budget.decide(busy(3, 36 * milli, 36 * milli), 1.0, ALL), Change::None);
        assert_eq!(budget.decide(busy(4, 37 * milli, 37 * milli), 1.0, ALL), Change::SampleMore);
        let looks_rarely = Room { samples_more: false, ..ALL };
        assert_eq!(budget.decide(busy(5, 38 * milli, 38 * milli), 1.0, looks_rarely), Change::LookMore);
        assert_eq!(budget.decide(busy(6, 38 * milli, 38 * milli), 1.0, AS_ASKED), Change::None);
    }

    #[test]
    fn what_is_at_its_end_leaves_it_to_the_other() {
        let decide = |sampling, looking, room| {
            OverheadBudget::new(CpuTotals::default()).decide(busy(1, sampling, looking), 1.0, room)
        };
        let slowest = Room { looks_less: false, ..ALL };
        assert_eq!(decide(SECOND / 50, SECOND / 20, slowest), Change::SampleLess);
        assert_eq!(decide(SECOND / 1000, SECOND / 20, slowest), Change::None, "it would be for nothing");
        let lowest = Room { samples_less: false, ..ALL };
        assert_eq!(decide(SECOND / 20, SECOND / 1000, lowest), Change::LookLess);
        assert_eq!(decide(SECOND, SECOND, Room::default()), Change::None);
    }

    #[test]
    fn several_busy_cores_allow_more() {
        let totals = CpuTotals { process_nanos: 8 * SECOND, ..busy(1, SECOND / 40, SECOND / 40) };
        assert_eq!(OverheadBudget::new(CpuTotals::default()).decide(totals, 1.0, AS_ASKED), Change::None);
    }

    #[test]
    fn a_quiet_process_keeps_its_frequency() {
        let totals = CpuTotals { process_nanos: SECOND / 100, ..busy(1, SECOND / 400, SECOND / 400) };
        assert_eq!(OverheadBudget::new(CpuTotals::default()).decide(totals, 1.0, AS_ASKED), Change::None);
        let too_early =
            CpuTotals { time_nanos: SECOND / 10, sampling_nanos: SECOND / 10, ..CpuTotals::default() };
        assert_eq!(OverheadBudget::new(CpuTotals::default()).decide(too_early, 1.0, ALL), Change::None);
    }

    /// Runs the budget for a minute on a process in which a sample and a look cost this much.
    fn after_a_while(sample_nanos: u64, look_nanos: u64, asked: u32) -> (u32, Pace, f64) {
        const PERCENT: f64 = 2.0;
        let (mut budget, mut totals) = (OverheadBudget::new(CpuTotals::default()), CpuTotals::default());
        let (mut frequency, mut pace, mut used) = (asked, Pace::new(), 0.0);
        for second in 1..=60 {
            // Threads come and go all the time, and much of their work is not sampled.
            pace.reviewed(Review { process_nanos: SECOND, sampled_nanos: 0, period_nanos: 1, threads: 1 });
            pace.looked(Look { samples: 1, slots: 2048, born: 10 });
            let looks = 1.0 / pace.look_interval().as_secs_f64();
            let looking = (looks * look_nanos as f64) as u64;
            let sampling = u64::from(frequency) * sample_nanos;
            totals = busy(second, totals.sampling_nanos + sampling, totals.looking_nanos + looking);
            used = (looking + sampling) as f64 / SECOND as f64 * 100.0;
            match budget.decide(totals, PERCENT, pace.room(frequency, asked)) {
                Change::SampleLess => frequency = (frequency / 2).max(1),
                Change::SampleMore => frequency = frequency.saturating_mul(2).min(asked),
                Change::LookLess => pace.look_less(),
                Change::LookMore => pace.look_more(),
                Change::None => {}
            }
        }
        (frequency, pace, used)
    }

    /// A look of 140 µs every 5 ms: the 2.8 % of a core that was measured.
    #[test]
    fn under_thread_churn_the_looks_are_rarer_and_the_frequency_stays() {
        let (frequency, pace, used) = after_a_while(8_000, 140_000, 19);
        assert_eq!(frequency, 19);
        assert_eq!(pace.look_interval().as_millis(), 10);
        assert!(used <= 2.0, "{used} %");
        let (frequency, pace, used) = after_a_while(8_000, 30_000_000, 99);
        assert_eq!((frequency, used <= 2.0), (99, true), "{used} %, looks every {:?}", pace.look_interval());
    }

    #[test]
    fn under_costly_samples_the_frequency_falls_and_the_looks_stay() {
        let (frequency, pace, used) = after_a_while(20_000, 10_000, 5000);
        assert_eq!((frequency, pace.look_interval().as_millis()), (625, 5));
        assert!(used <= 2.0, "{used} %");
    }
}
