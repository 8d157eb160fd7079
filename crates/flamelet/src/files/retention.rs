//! Which windows to remove.
//!
//! A window's age is not the time since the date in its name: a clock that jumps forward would make all windows old
//! at once. It is the sum of the gaps between the windows written since, and each gap counts as at most
//! [`Retention::longest`], be it a jump of the clock, a suspended machine or a month without the service. While the
//! service runs and the clock is right, that is the time that has passed.

use std::time::{Duration, SystemTime};

/// How much to keep.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    pub(super) windows: usize,
    pub(super) age: Duration,
    pub(super) bytes: u64,
    /// How often a window is written.
    pub(super) interval: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let (interval, age) = (Duration::from_secs(120), Duration::from_secs(7 * 86_400));
        Self { windows: 1000, age, bytes: 256 << 20, interval }
    }
}

/// A window in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptWindow {
    pub(super) time: SystemTime,
    pub(super) bytes: u64,
}

impl Retention {
    /// Returns how many of `windows`, which are sorted newest first, are not too old.
    pub(super) fn young(&self, windows: &[KeptWindow], now: SystemTime) -> usize {
        let longest = self.longest();
        let (mut age, mut later) = (Duration::ZERO, now);
        let is_young = |window: &&KeptWindow| {
            let between = later.duration_since(window.time).unwrap_or_default();
            age = age.saturating_add(between.min(longest));
            later = window.time;
            age <= self.age
        };
        windows.iter().take_while(is_young).count()
    }

    /// Returns how many of `windows` there is room for. The last ones go first; the first one is always kept.
    pub(super) fn room(&self, windows: &[KeptWindow]) -> usize {
        let mut bytes = 0u64;
        let fits = |(at, window): (usize, &KeptWindow)| {
            bytes = window.bytes.saturating_add(bytes);
            at == 0 || (at < self.windows && bytes <= self.bytes)
        };
        windows.iter().enumerate().map(fits).take_while(|&fits| fits).count()
    }

    /// Returns the longest gap between two windows that counts in full: a jump of the clock then costs an eighth of
    /// what is kept. A window that is late because the machine is busy still counts in full.
    fn longest(&self) -> Duration {
        (self.age / 8).max(self.interval.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn by_count_by_age_and_by_size() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let windows: Vec<KeptWindow> =
            (0..10).map(|at| KeptWindow { time: now - Duration::from_secs(at * 10), bytes: 100 }).collect();
        let interval = Duration::from_secs(10);
        let all = Retention { windows: 1000, age: Duration::from_secs(1000), bytes: u64::MAX, interval };
        assert_eq!((all.young(&windows, now), all.room(&windows)), (10, 10));
        assert_eq!(Retention { windows: 3, ..all.clone() }.room(&windows), 3);
        assert_eq!(Retention { age: Duration::from_secs(45), ..all.clone() }.young(&windows, now), 5);
        assert_eq!(Retention { bytes: 250, ..all.clone() }.room(&windows), 2);
        assert_eq!(Retention { bytes: 1, ..all.clone() }.room(&windows), 1);
        assert_eq!((all.young(&[], now), all.room(&[])), (0, 0));
    }

    #[test]
    fn an_interval_that_is_long_for_the_age_counts_in_full() {
        let hour = Duration::from_secs(3600);
        let day = Retention { age: 24 * hour, interval: 6 * hour, ..Retention::default() };
        let now = UNIX_EPOCH + 1000 * hour;
        let windows: Vec<KeptWindow> =
            (0..10).map(|at| KeptWindow { time: now - 6 * at * hour, bytes: 1 }).collect();
        assert_eq!(day.young(&windows, now), 5);
        let for_ever = Retention { age: Duration::MAX, ..day };
        assert_eq!(for_ever.young(&windows, now), 10);
    }
}
