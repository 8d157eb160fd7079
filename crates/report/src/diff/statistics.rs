//! The few statistics that a comparison needs.

/// Beyond this many degrees of freedom, Student's distribution and the normal one agree to four digits.
const MANY: f64 = 10_000.0;

/// Returns the probability that a Student variable with this many degrees of freedom is at least this far from 0, on
/// either side.
pub(super) fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    let freedom = freedom.clamp(1.0, MANY);
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the regularized incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges fast only below the mean; the rest follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let scale = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    scale * beta_fraction(x, a, b) / a
}

/// Evaluates the continued fraction of the incomplete beta function by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let kept = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / kept(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for step in 1..1000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / kept(1.0 + term * d);
            c = kept(1.0 + term / c);
            change = d * c;
            product *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    product
}

/// Returns ln Γ(x) for positive x: Stirling's series, after moving x to where it is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

/// Returns which of these p-values are significant by Holm's method: the probability that any of them is so by chance
/// is at most `level`, however they depend on each other.
pub(super) fn holm(p_values: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut significant = vec![false; p_values.len()];
    for (rank, &at) in order.iter().enumerate() {
        if p_values[at] > level / (p_values.len() - rank) as f64 {
            break;
        }
        significant[at] = true;
    }
    significant
}

/// Returns the median of values that count by their weights.
pub(super) fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let found = values.iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    found.map(|(value, _)| *value)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, half) if length % 2 == 1 => sorted[half],
        (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of R's `2 * pt(-t, df)`.
    #[test]
    fn students_distribution_has_its_known_values() {
        for (t, freedom, expected) in [
            (2.776_445, 4.0, 0.05),
            (4.604_095, 4.0, 0.01),
            (12.7062, 1.0, 0.05),
            (2.306_004, 8.0, 0.05),
            (1.959_964, 1e9, 0.05),
            (3.290_527, 1e9, 0.001),
            (0.0, 5.0, 1.0),
        ] {
            let p = two_sided_p(t, freedom);
            assert!((p - expected).abs() < 3e-5, "{t} {freedom}: {p}");
        }
        assert_eq!((two_sided_p(f64::INFINITY, 4.0), two_sided_p(f64::NAN, 4.0)), (0.0, 1.0));
    }

    #[test]
    fn holm_takes_the_small_ones_in_order() {
        assert_eq!(holm(&[0.04, 0.001, 0.012, 0.5], 0.05), [false, true, true, false]);
        assert_eq!(holm(&[0.03, 0.02], 0.05), [true, true]);
        assert_eq!(holm(&[0.03, 0.04], 0.05), [false, false]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn medians_ignore_one_extreme_value() {
        assert_eq!((median(&[3.0, 1.0, 100.0]), median(&[1.0, 2.0]), median(&[])), (3.0, 1.5, 0.0));
        assert_eq!(weighted_median(&mut [(9.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Some(2.0));
        assert_eq!(weighted_median(&mut [(9.0, 5.0), (1.0, 1.0), (2.0, 1.0)]), Some(9.0));
        assert_eq!(weighted_median(&mut []), None);
    }
}
