//! Which windows to forget.

use std::time::{Duration, SystemTime};

/// How much to keep.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    pub(super) windows: usize,
    pub(super) age: Duration,
    pub(super) bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { windows: 1000, age: Duration::from_secs(7 * 86_400), bytes: 256 << 20 }
    }
}

/// A window that lies in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) time: SystemTime,
    pub(super) bytes: u64,
}

impl Retention {
    /// How many of `windows`, which are sorted by time, the newest first, to keep. The newest is always kept.
    pub(super) fn keep(&self, windows: &[Kept], now: SystemTime) -> usize {
        let mut bytes = 0u64;
        let fits = |(at, window): (usize, &Kept)| {
            bytes = window.bytes.saturating_add(bytes);
            let age = now.duration_since(window.time).unwrap_or_default();
            at == 0 || (at < self.windows && bytes <= self.bytes && age <= self.age)
        };
        windows.iter().enumerate().map(fits).take_while(|&fits| fits).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn by_count_by_age_and_by_size() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let windows: Vec<Kept> =
            (0..10).map(|at| Kept { time: now - Duration::from_secs(at * 10), bytes: 100 }).collect();
        let all = Retention { windows: 1000, age: Duration::from_secs(1000), bytes: u64::MAX };
        assert_eq!(all.keep(&windows, now), 10);
        assert_eq!(Retention { windows: 3, ..all.clone() }.keep(&windows, now), 3);
        assert_eq!(Retention { age: Duration::from_secs(45), ..all.clone() }.keep(&windows, now), 5);
        assert_eq!(Retention { bytes: 250, ..all.clone() }.keep(&windows, now), 2);
        assert_eq!(Retention { bytes: 1, ..all.clone() }.keep(&windows, now), 1);
        assert_eq!(all.keep(&[], now), 0);
    }
}
