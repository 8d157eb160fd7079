//! The middle of several runs, and how figures are written.

use std::time::Duration;

use super::measure::Cost;

/// The middle value; of two, the smaller.
pub(super) fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values[(values.len() - 1) / 2]
}

/// The middle of each figure of several runs.
pub(super) fn median_cost(costs: &[Cost]) -> Cost {
    Cost {
        cpu: median(costs.iter().map(|cost| cost.cpu)),
        wall: median(costs.iter().map(|cost| cost.wall)),
        peak: median(costs.iter().map(|cost| cost.peak)),
    }
}

/// `1.23 s`.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// `12.3 ms`.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

/// `12.3 MB`, in millions of bytes.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `30.1 ×`.
pub(super) fn times(theirs: f64, ours: f64) -> String {
    format!("{:.1} ×", theirs / ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle() {
        assert_eq!(median([3, 1, 2]), 2);
        assert_eq!(median([5]), 5);
        assert_eq!(median([4, 1, 3, 2]), 2);
    }
}
