//! How many observations the values of a profile are based on, and how exact that makes them.
//!
//! A sampled value is a sum of weights: each observation (a signal, a record of perf, a sampled allocation) stands for
//! some amount. How far such a sum may be from the truth depends on the number of observations and on how unequal
//! their weights are, not on the sum itself: a timer that asks for 1000 samples a second on a kernel that looks 250
//! times a second gives 250 observations of weight 4, and these are as uncertain as 250 of weight 1.
//!
//! With weights *w*, the variance of a sum is Σ*w*², and the effective number of observations is (Σ*w*)² / Σ*w*².
//!
//! # In the file
//!
//! Like the [timeline](crate::timeline), in a field of the `Profile` message that the pprof schema does not use:
//! `flamelet_observations`, number 2603, message `Observations`.
//!
//! | field of `Observations` | number | encoding |
//! |---|---|---|
//! | `value_type` | 1 | the row of `Profile.sample_type` that weights are given in |
//! | `count` | 2 | packed uint64: the observations of each row of `Profile.sample` |
//! | `squares` | 3 | packed double: the sum of the squared weights of each row; absent when the weights within every row are equal |

use crate::{LabelSetId, Profile, Sample, unit};

/// What the value of one sample, or a sum of values, is based on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// How many observations there are.
    pub count: f64,
    /// The sum of their squared weights, in the square of the value's unit.
    pub squares: f64,
}

impl Observed {
    /// Returns `count` observations of equal weight that add up to `value`.
    pub fn equal(count: f64, value: f64) -> Self {
        if count > 0.0 { Self { count, squares: value * value / count } } else { Self::default() }
    }

    /// Returns the effective number of observations behind `value`, their sum: that of as many observations of equal
    /// weight.
    pub fn effective(self, value: f64) -> f64 {
        if self.squares > 0.0 { value * value / self.squares } else { 0.0 }
    }
}

impl std::ops::AddAssign for Observed {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.squares += other.squares;
    }
}

impl std::iter::Sum for Observed {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

/// The observations of every sample of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// The sample type that the weights are given in.
    pub value_type: usize,
    /// One entry for each sample.
    pub rows: Vec<Observed>,
}

impl Observations {
    /// Returns whether the weights of each row follow from its count and `value`.
    pub(crate) fn has_equal_weights(&self, value: impl Fn(usize) -> i64) -> bool {
        self.rows.iter().enumerate().all(|(row, observed)| {
            let expected = Observed::equal(observed.count, value(row) as f64).squares;
            (observed.squares - expected).abs() <= expected * 1e-9
        })
    }
}

/// The kinds of values that count observations.
const COUNTS: [&str; 5] = ["samples", "sample", "cpu_samples", "count", "contentions"];

impl Profile {
    /// Returns the column that counts observations, if there is one.
    fn count_column(&self) -> Option<usize> {
        let counts = |at: &usize| {
            let value = self.sample_types()[*at];
            self.string(value.unit) == "count" && COUNTS.contains(&self.string(value.kind))
        };
        (0..self.sample_types().len()).find(counts)
    }

    /// Returns whether values of `sample_type` are known to be sampled: by the capture, a number of samples or a period.
    pub fn is_sampled(&self, sample_type: usize) -> bool {
        if sample_type >= self.sample_types().len() {
            return false;
        }
        let stated = self.observations.as_ref().is_some_and(|stated| {
            // Time off the CPU next to sampled CPU time is counted in full.
            let samples = self
                .samples()
                .any(|sample| sample.values[sample_type] != 0 && sample.values[stated.value_type] != 0);
            samples || self.sample_count() == 0
        });
        stated
            || self.observations.is_none()
                && (self.sampled_heap(sample_type).is_some()
                    || self.count_column().is_some_and(|column| self.are_counted(sample_type, column))
                    || self.period_in(sample_type).is_some_and(|period| period > 1.0))
    }

    /// Returns whether the samples with a value of `sample_type` are counted in `column`.
    fn are_counted(&self, sample_type: usize, column: usize) -> bool {
        self.samples().all(|sample| sample.values[sample_type] == 0 || sample.values[column] != 0)
    }

    /// Returns what each sample's value of `sample_type` is based on: as the capture says, or else as far as the file
    /// tells. Files of other tools tell it by a number of samples, by the period of a sampled heap, or by another
    /// period. Where nothing is known, every unit counts as one observation: such values are exact, or nearly so.
    pub fn observed(&self, sample_type: usize) -> Vec<Observed> {
        if let Some(observations) = &self.observations {
            return self.stated(observations, sample_type);
        }
        if let Some(sampled) = self.sampled_heap(sample_type) {
            return sampled;
        }
        if let Some(column) = self.count_column() {
            let row = |sample: Sample<'_>| {
                let value = sample.values[sample_type] as f64;
                Observed::equal(sample.values[column].unsigned_abs() as f64, value)
            };
            return self.samples().map(row).collect();
        }
        let weight = self.period_in(sample_type).unwrap_or(1.0);
        let row = |sample: Sample<'_>| {
            let value = sample.values[sample_type].unsigned_abs() as f64;
            Observed { count: value / weight, squares: value * weight }
        };
        self.samples().map(row).collect()
    }

    /// Returns the sum of [`Profile::observed`].
    pub fn total_observed(&self, sample_type: usize) -> Observed {
        self.observed(sample_type).into_iter().sum()
    }

    /// Returns the observations that the capture noted, with their weights converted to `sample_type`.
    fn stated(&self, observations: &Observations, sample_type: usize) -> Vec<Observed> {
        let convert = |(sample, observed): (Sample<'_>, &Observed)| {
            let (from, to) =
                (sample.values[observations.value_type] as f64, sample.values[sample_type] as f64);
            match from == 0.0 {
                // A value that was not sampled, such as time off the CPU next to sampled CPU time: counted in full.
                true => Observed { count: observed.count, squares: to.abs() },
                false => Observed { squares: observed.squares * (to / from).powi(2), ..*observed },
            }
        };
        self.samples().zip(&observations.rows).map(convert).collect()
    }

    /// Returns the period in the unit of `sample_type`, if it applies to it.
    fn period_in(&self, sample_type: usize) -> Option<f64> {
        let period_type = self.header.period_type.filter(|_| self.header.period > 0)?;
        let (from, to) = (self.string(period_type.unit), self.string(self.sample_types()[sample_type].unit));
        let applies = unit::are_compatible(from, to) && !to.eq_ignore_ascii_case("count");
        applies.then(|| self.header.period as f64 * unit::ratio(from, to))
    }

    /// Returns the observations of a heap that was sampled once per a given number of bytes. An allocation of `size` bytes is
    /// sampled with the probability 1 − exp(−size / period), and counts for its inverse.
    fn sampled_heap(&self, sample_type: usize) -> Option<Vec<Observed>> {
        let header = &self.header;
        let period_type = header.period_type.filter(|_| header.period > 1)?;
        let kind = |at: usize| self.string(self.sample_types()[at].kind);
        let is_heap = self.string(period_type.unit) == "bytes"
            && (kind(sample_type).ends_with("space") || kind(sample_type).ends_with("objects"));
        let stem = kind(sample_type).trim_end_matches("space").trim_end_matches("objects");
        let column =
            |end: &str| (0..self.sample_types().len()).find(|&at| kind(at) == format!("{stem}{end}"));
        let (objects, space) = (column("objects")?, column("space")?);
        if !is_heap {
            return None;
        }
        let sizes = self.sizes_of_label_sets();
        let row = |sample: Sample<'_>| {
            let (objects, space) = (sample.values[objects] as f64, sample.values[space] as f64);
            let size = sizes[sample.labels.index()].unwrap_or(space / objects);
            let chance = -(-size / header.period as f64).exp_m1();
            let value = sample.values[sample_type] as f64;
            let count = (space / size * chance).abs();
            if count.is_finite() {
                Observed::equal(count, value)
            } else {
                Observed { count: 0.0, squares: value.abs() }
            }
        };
        Some(self.samples().map(row).collect())
    }

    /// Returns the number of the label `bytes` of each label set: the size of the objects, as Go writes it.
    fn sizes_of_label_sets(&self) -> Vec<Option<f64>> {
        let Some(key) = self.strings().find("bytes") else { return vec![None; self.label_set_count()] };
        let size = |set| {
            let mut labels = self.labels(LabelSetId::from_index(set)).iter();
            labels.find(|label| label.key == key && label.number > 0).map(|label| label.number as f64)
        };
        (0..self.label_set_count()).map(size).collect()
    }
}

/// The standard normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;

/// Returns Wilson's 95 % confidence interval of a share that was seen in `count` independent observations of equal
/// weight.
pub fn share_interval(share: f64, count: f64) -> (f64, f64) {
    if count <= 0.0 || count.is_nan() {
        return (0.0, 1.0);
    }
    let share = share.clamp(0.0, 1.0);
    let middle = share + Z * Z / (2.0 * count);
    let half = Z * (share * (1.0 - share) / count + Z * Z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + Z * Z / count;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Returns the effective number of observations behind the share `part / whole`, where the squared weights of the part
/// and of the whole are known. Parts whose observations weigh more than others are less certain than their number says.
pub fn effective_of_share(part: f64, part_squares: f64, whole: f64, whole_squares: f64) -> f64 {
    let all = if whole_squares > 0.0 { whole * whole / whole_squares } else { 0.0 };
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let rest_squares = (whole_squares - part_squares).max(0.0);
    let variance = ((1.0 - share).powi(2) * part_squares + share.powi(2) * rest_squares) / (whole * whole);
    let effective = share * (1.0 - share) / variance;
    if effective.is_finite() && effective > 0.0 { effective } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileBuilder;

    #[test]
    fn unequal_weights_count_for_less() {
        // One observation of weight 9 and nine of weight 1.
        let observed = Observed { count: 10.0, squares: 81.0 + 9.0 };
        assert_eq!(observed.effective(18.0), 3.6);
        assert_eq!(Observed::equal(4.0, 400.0), Observed { count: 4.0, squares: 40_000.0 });
        assert_eq!(Observed::equal(4.0, 400.0).effective(400.0), 4.0);
        assert_eq!(Observed::equal(0.0, 400.0), Observed::default());
    }

    #[test]
    fn wilson_has_its_known_values() {
        // 10 of 100: the textbook's 5.52 % to 17.44 %.
        let (low, high) = share_interval(0.1, 100.0);
        assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
        assert_eq!(share_interval(0.5, 0.0), (0.0, 1.0));
        let (low, high) = share_interval(0.0, 10.0);
        assert!(low == 0.0 && (high - 0.2775).abs() < 1e-4, "{high}");
    }

    #[test]
    fn a_share_with_heavy_observations_is_less_certain() {
        // Half of the sum is one observation of weight 100, the other half a hundred of weight 1.
        let effective = effective_of_share(100.0, 10_000.0, 200.0, 10_100.0);
        assert!((effective - 3.96).abs() < 0.01, "{effective}");
        // Equal weights: the number of observations.
        assert!((effective_of_share(30.0, 300.0, 100.0, 1000.0) - 10.0).abs() < 1e-9);
        assert_eq!(effective_of_share(0.0, 0.0, 100.0, 1000.0), 10.0);
    }

    fn one_sample(types: &[(&str, &str)], values: &[i64], period: Option<(&str, &str, i64)>) -> Profile {
        let mut builder = ProfileBuilder::new(types);
        if let Some((kind, unit, period)) = period {
            builder.set_period(kind, unit, period);
        }
        let stack = builder.stack(&[]);
        builder.sample(stack, LabelSetId::EMPTY, values);
        builder.finish()
    }

    #[test]
    fn other_tools_files_say_it_by_a_count_or_a_period() {
        let cpu = [("samples", "count"), ("cpu", "nanoseconds")];
        let counted = one_sample(&cpu, &[4, 40_000_000], Some(("cpu", "nanoseconds", 1_000_000)));
        assert_eq!(counted.observed(1), [Observed { count: 4.0, squares: 4e14 }], "the count wins");
        assert_eq!(counted.observed(0), [Observed { count: 4.0, squares: 4.0 }]);
        let timed = one_sample(&cpu[1..], &[40_000_000], Some(("cpu", "milliseconds", 10)));
        assert_eq!(timed.observed(0), [Observed { count: 4.0, squares: 4e14 }]);
        let unknown = one_sample(&cpu[1..], &[40], None);
        assert_eq!(unknown.observed(0), [Observed { count: 40.0, squares: 40.0 }]);
    }

    #[test]
    fn a_sampled_heap_rests_on_its_sampled_allocations() {
        let types = [("inuse_objects", "count"), ("inuse_space", "bytes")];
        let period = 1 << 19;
        // Objects as large as the period are sampled with a chance of 63 %.
        let heap = one_sample(&types, &[1000, 1000 * period], Some(("space", "bytes", period)));
        let [observed] = heap.observed(1)[..] else { panic!("one sample") };
        assert!((observed.count - 632.12).abs() < 0.01, "{observed:?}");
        let effective = observed.effective(1000.0 * period as f64);
        assert!((effective - observed.count).abs() < 1e-6);
        let [objects] = heap.observed(0)[..] else { panic!("one sample") };
        assert!((objects.count - 632.12).abs() < 0.01);
        // Every byte counted: exact.
        let exact = one_sample(&types, &[1000, 4000], Some(("space", "bytes", 1)));
        assert_eq!(exact.observed(1)[0].count, 4000.0);
    }
}
