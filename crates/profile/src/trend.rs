//! Tests whether a series rises steadily, which distinguishes a leak from noise.
//!
//! This is the Mann–Kendall test: of all pairs of moments, in how many was the later one higher? It assumes nothing
//! about the distribution of the values, and one large step does not count as growth.

/// The shortest series that says anything.
pub const FEWEST_MOMENTS: usize = 4;

/// The test's threshold: a series without a trend exceeds it once in twenty times.
const STEADY: f64 = 1.645;

/// The direction of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trend {
    /// Pairs that rose minus pairs that fell, in percent of all: 100 when every step was up.
    pub percent: i64,
    /// Whether the rise is more than chance.
    pub is_steady: bool,
}

/// Returns the trend of a series in time order, or `None` when it is too short.
pub fn trend(series: &[i64]) -> Option<Trend> {
    if series.len() < FEWEST_MOMENTS {
        return None;
    }
    let count = series.len() as f64;
    let later = |at: usize| {
        series[at + 1..].iter().map(move |&late| i64::from(late > series[at]) - i64::from(late < series[at]))
    };
    let score: i64 = (0..series.len()).flat_map(later).sum();
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let percent = (score as f64 * 200.0 / (count * (count - 1.0))).round() as i64;
    Some(Trend { percent, is_steady: (score - 1) as f64 / deviation >= STEADY })
}

#[cfg(test)]
mod tests {
    use super::{Trend, trend};

    fn is_steady(series: &[i64]) -> Option<bool> {
        trend(series).map(|trend| trend.is_steady)
    }

    #[test]
    fn a_leak_is_steady_and_noise_is_not() {
        assert_eq!(trend(&[1, 2, 3, 4]), Some(Trend { percent: 100, is_steady: true }));
        assert_eq!(trend(&[1, 2, 3]), None);
        assert_eq!(trend(&[5, 5, 5, 5, 5, 5]), Some(Trend { percent: 0, is_steady: false }));
        assert_eq!(is_steady(&[1, 9, 2, 8, 3, 7, 4]), Some(false));
        // A sawtooth that still rises.
        assert_eq!(is_steady(&[1, 3, 2, 4, 3, 5, 4, 6, 5, 7]), Some(true));
        // One step is not growth.
        assert_eq!(is_steady(&[0, 0, 0, 0, 0, 0, 0, 9]), Some(false));
        assert_eq!(trend(&[9, 8, 7, 6]), Some(Trend { percent: -100, is_steady: false }));
        assert_eq!(is_steady(&[i64::MIN, -1, 1, i64::MAX]), Some(true));
    }
}
