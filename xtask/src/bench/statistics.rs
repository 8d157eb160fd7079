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

/// Returns half of the 95 % interval of the mean, by Student's distribution; infinite for fewer than two values.
pub(super) fn half_width(values: &[f64]) -> f64 {
    /// Quantiles for 1, 2, 3 … degrees of freedom; more are close to the last.
    const QUANTILES: [f64; 12] =
        [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    let Some(freedom) = values.len().checked_sub(1).filter(|&freedom| freedom > 0) else {
        return f64::INFINITY;
    };
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
    QUANTILES[freedom.min(QUANTILES.len()) - 1] * (variance / count).sqrt()
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

    #[test]
    fn few_runs_say_little() {
        assert_eq!(half_width(&[1.0]), f64::INFINITY);
        assert!((half_width(&[1.0, 2.0, 3.0]) - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(half_width(&[2.0; 30]), 0.0);
    }
}
