//! Medians of several runs, and the formatting of figures.

use std::time::Duration;

use super::measure::Cost;

/// Returns the median; of two middle values, the smaller.
pub(super) fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values[(values.len() - 1) / 2]
}

/// The same for figures that are no whole numbers; `None` if there are none.
pub(super) fn middle(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().checked_sub(1)? / 2).copied()
}

/// Returns the median of each figure of several runs.
pub(super) fn median_cost(costs: &[Cost]) -> Cost {
    Cost {
        cpu: median(costs.iter().map(|cost| cost.cpu)),
        wall: median(costs.iter().map(|cost| cost.wall)),
        peak: median(costs.iter().map(|cost| cost.peak)),
    }
}

/// Formats as `1.23 s`.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// Formats as `12.3 ms`.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

/// Formats as `12.3 MB`, in millions of bytes.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Formats as `30.1 ×`.
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
        assert_eq!(middle([0.4, 0.1, 0.3]), Some(0.3));
        assert_eq!(middle([]), None);
    }
}
