//! Keeps the profiler's own CPU time below a share of the process', or of one core.

/// What the kernel spends to deliver one signal and return from it: the part of a sample's cost that the
/// handler cannot measure.
pub(super) const SIGNAL_NANOS: u64 = 3_000;

/// Below this much time a share says nothing.
const ENOUGH_NANOS: u64 = 200_000_000;

/// What was used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// By the clock.
    pub(super) time_nanos: u64,
    /// CPU time of the process.
    pub(super) process_nanos: u64,
    /// CPU time of the profiler.
    pub(super) own_nanos: u64,
}

/// Decides about the frequency, once a second or so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    last: Totals,
}

impl Budget {
    /// Starts to watch, at these totals.
    pub(super) fn new(totals: Totals) -> Self {
        Self { last: totals }
    }

    /// The frequency to go on with, given the totals now. It is halved when the profiler used more than
    /// `percent` since the last decision, and doubled again, up to what was `asked`, when it used less than
    /// a quarter of that.
    ///
    /// The share is that of the process' CPU time, or of one core where the process needs less than that: what
    /// the collector needs at any frequency would else lower the frequency of an idle service for nothing.
    pub(super) fn decide(&mut self, now: Totals, percent: f64, frequency: u32, asked: u32) -> u32 {
        let since = |now: u64, last: u64| now.saturating_sub(last);
        let process = since(now.process_nanos, self.last.process_nanos);
        let whole = process.max(since(now.time_nanos, self.last.time_nanos));
        if whole < ENOUGH_NANOS {
            return frequency.min(asked);
        }
        let own = since(now.own_nanos, self.last.own_nanos);
        self.last = now;
        let used = own as f64 / whole as f64 * 100.0;
        if used > percent {
            (frequency / 2).max(1)
        } else if used < percent / 4.0 {
            frequency.saturating_mul(2).min(asked)
        } else {
            frequency.min(asked)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// After so many seconds of a process that keeps one core busy.
    fn busy(seconds: u64, own_nanos: u64) -> Totals {
        Totals { time_nanos: seconds * SECOND, process_nanos: seconds * SECOND, own_nanos }
    }

    #[test]
    fn the_frequency_falls_over_the_budget_and_recovers_under_it() {
        let mut budget = Budget::new(Totals::default());
        assert_eq!(budget.decide(busy(1, SECOND / 20), 1.0, 1000, 1000), 500);
        let own = SECOND / 20 + SECOND / 50;
        assert_eq!(budget.decide(busy(2, own), 1.0, 500, 1000), 250);
        assert_eq!(budget.decide(busy(3, own), 1.0, 250, 1000), 500);
        assert_eq!(budget.decide(busy(4, own), 1.0, 500, 600), 600);
    }

    #[test]
    fn several_busy_cores_allow_more() {
        let totals = Totals { time_nanos: SECOND, process_nanos: 8 * SECOND, own_nanos: SECOND / 20 };
        assert_eq!(Budget::new(Totals::default()).decide(totals, 1.0, 999, 999), 999);
    }

    #[test]
    fn a_quiet_process_keeps_its_frequency() {
        let totals = Totals { time_nanos: SECOND, process_nanos: SECOND / 100, own_nanos: SECOND / 200 };
        assert_eq!(Budget::new(Totals::default()).decide(totals, 1.0, 99, 99), 99);
        let too_early = Totals { time_nanos: SECOND / 10, process_nanos: 0, own_nanos: SECOND / 10 };
        assert_eq!(Budget::new(Totals::default()).decide(too_early, 1.0, 99, 99), 99);
        assert_eq!(Budget::new(Totals::default()).decide(busy(1, SECOND), 1.0, 1, 99), 1);
    }
}
