//! Keeps the profiler's own CPU time below a share of the process'.

/// What the kernel spends to deliver one signal and return from it: the part of a sample's cost that the
/// handler cannot measure.
pub(super) const SIGNAL_NANOS: u64 = 3_000;

/// Below this much CPU time of the process a share says nothing.
const ENOUGH_NANOS: u64 = 200_000_000;

/// Decides about the frequency, once a second or so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    process_nanos: u64,
    own_nanos: u64,
}

impl Budget {
    /// Starts to watch, at these totals.
    pub(super) fn new(process_nanos: u64, own_nanos: u64) -> Self {
        Self { process_nanos, own_nanos }
    }

    /// The frequency to go on with, given the totals now. It is halved when the profiler used more than
    /// `percent` since the last decision, and doubled again, up to what was `asked`, when it used less than
    /// a quarter of that.
    pub(super) fn decide(
        &mut self,
        process_nanos: u64,
        own_nanos: u64,
        percent: f64,
        frequency: u32,
        asked: u32,
    ) -> u32 {
        let process = process_nanos.saturating_sub(self.process_nanos);
        if process < ENOUGH_NANOS {
            return frequency.min(asked);
        }
        let own = own_nanos.saturating_sub(self.own_nanos);
        *self = Self::new(process_nanos, own_nanos);
        let used = own as f64 / process as f64 * 100.0;
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

    #[test]
    fn the_frequency_falls_over_the_budget_and_recovers_under_it() {
        let mut budget = Budget::new(0, 0);
        assert_eq!(budget.decide(SECOND, SECOND / 20, 1.0, 1000, 1000), 500);
        assert_eq!(budget.decide(2 * SECOND, SECOND / 20 + SECOND / 50, 1.0, 500, 1000), 250);
        assert_eq!(budget.decide(3 * SECOND, SECOND / 20 + SECOND / 50, 1.0, 250, 1000), 500);
        assert_eq!(budget.decide(4 * SECOND, SECOND / 20 + SECOND / 50, 1.0, 500, 600), 600);
    }

    #[test]
    fn an_idle_process_is_left_alone() {
        let mut budget = Budget::new(0, 0);
        assert_eq!(budget.decide(SECOND / 100, SECOND / 100, 1.0, 99, 99), 99);
        assert_eq!(Budget::new(0, 0).decide(SECOND, SECOND, 1.0, 1, 99), 1);
    }
}
