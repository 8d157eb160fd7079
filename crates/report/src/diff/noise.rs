//! How far values may be apart without anything having changed: sampling noise, and the variation between runs.
//!
//! Sampling noise follows from the number of observations. How much runs of the same program differ has to be measured,
//! with several runs a side. It has two parts. The machine is faster in one run than in another, and all functions with
//! it: functions are compared relative to the median speed of their run, and only the total shows that speed itself. And
//! each function varies for itself: few runs say little about one of them, so what all functions show together counts too,
//! unless a function clearly varies more than the others.
//!
//! A function that has two speeds and happens to keep one of them in all runs of a side cannot be distinguished from one that
//! changed; more runs make that less likely.

use flamelet_profile::Observed;

use super::statistics::{mean, two_sided_p, weighted_median};

/// The standard deviation between runs that is assumed where it cannot be measured, as a share of the value.
pub const ASSUMED_VARIATION: f64 = 0.08;

/// The same for the total, which also depends on how much work a run did and how fast the machine was.
const ASSUMED_TOTAL_VARIATION: f64 = 0.3;

/// How many degrees of freedom the variation of all functions together counts for.
const SHARED_FREEDOM: f64 = 8.0;

/// Fewer functions than this say nothing about each other.
pub(super) const FEWEST_FUNCTIONS: usize = 8;

/// The value of one function in each run of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) values: Vec<f64>,
    /// The variance of each by sampling.
    pub(super) sampling: Vec<f64>,
}

impl Values {
    pub(super) fn with_runs(runs: usize) -> Self {
        Self { values: vec![0.0; runs], sampling: vec![0.0; runs] }
    }

    pub(super) fn add(&mut self, run: usize, value: f64, observed: Observed) {
        self.values[run] += value;
        self.sampling[run] += observed.squares;
    }

    /// Makes the variance of each run at least that of one observation: what was never seen may have been missed.
    pub(super) fn floor(&mut self, one_observation: &[f64]) {
        self.sampling
            .iter_mut()
            .zip(one_observation)
            .for_each(|(variance, one)| *variance = variance.max(*one));
    }

    pub(super) fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// Returns the values divided by the speed of each run.
    fn relative_to(&self, speeds: &[f64]) -> Self {
        let divided = |values: &[f64], power: i32| -> Vec<f64> {
            values.iter().zip(speeds).map(|(value, speed)| value / speed.powi(power)).collect()
        };
        Self { values: divided(&self.values, 1), sampling: divided(&self.sampling, 2) }
    }

    /// Returns the variance of the mean, if runs vary by the relative variance `between`.
    fn variance_of_mean(&self, between: f64) -> [f64; 2] {
        let runs = self.values.len().max(1) as f64;
        let sampling = self.sampling.iter().sum::<f64>() / (runs * runs);
        [sampling, between * self.mean().powi(2) / runs]
    }

    /// Returns the sum of squared relative deviations from the mean, the part of it that sampling explains, and the
    /// degrees of freedom.
    fn spread(&self) -> (f64, f64, f64) {
        let (mean, runs) = (self.mean(), self.values.len() as f64);
        if mean <= 0.0 || runs < 2.0 {
            return (0.0, 0.0, 0.0);
        }
        let squares = self.values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
        let sampling = self.sampling.iter().sum::<f64>() / runs / (mean * mean);
        (squares, sampling * (runs - 1.0), runs - 1.0)
    }
}

/// One function on both sides.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    pub(super) base: Values,
    pub(super) new: Values,
}

/// How much a function varies from run to run, as a share squared, and how well that is known.
#[derive(Clone, Copy, Debug)]
struct Variation {
    /// The whole variance.
    all: f64,
    /// The part of it that sampling explains.
    sampling: f64,
    freedom: f64,
}

impl Pair {
    fn variation(&self) -> Option<Variation> {
        let (a, b) = (self.base.spread(), self.new.spread());
        let freedom = a.2 + b.2;
        (freedom > 0.0).then(|| Variation {
            all: (a.0 + b.0) / freedom,
            sampling: (a.1 + b.1) / freedom,
            freedom,
        })
    }

    pub(super) fn change(&self) -> f64 {
        self.new.mean() - self.base.mean()
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.base.values.iter().chain(&self.new.values).copied()
    }
}

/// What is known about the variation between runs.
#[derive(Clone, Debug)]
pub(super) struct RunNoise {
    /// Whether a side has several runs.
    is_measured: bool,
    /// The relative variance of functions, of all of them together; `None` if there are too few.
    shared: Option<f64>,
    /// The speed of each run, those of the base first.
    speeds: Vec<f64>,
    base_runs: usize,
}

/// A tested change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested {
    /// The change in standard deviations.
    pub(super) sigmas: f64,
    /// The probability of a change at least this large if nothing changed.
    pub(super) p: f64,
}

impl RunNoise {
    /// Measures how much runs differ, by the functions with a share worth mentioning. `runs` is how many runs each side
    /// has.
    pub(super) fn of(pairs: &[&Pair], runs: [usize; 2]) -> Self {
        let is_measured = runs[0] + runs[1] > 2;
        let is_enough = pairs.len() >= FEWEST_FUNCTIONS;
        let speeds = if is_enough { speeds(pairs, runs[0] + runs[1]) } else { vec![1.0; runs[0] + runs[1]] };
        let mut noise = Self { is_measured, shared: None, speeds, base_runs: runs[0] };
        if is_enough && is_measured {
            let relative = pairs.iter().filter_map(|pair| noise.relative(pair).variation());
            // The median of a variance that is based on few runs is below its mean.
            let excess = relative.filter(|found| found.sampling > 0.0).map(|found| {
                let median = (1.0 - 2.0 / (9.0 * found.freedom)).powi(3);
                (found.all / median - found.sampling, 1.0 / found.sampling)
            });
            noise.shared = weighted_median(&mut excess.collect::<Vec<_>>()).map(|excess| excess.max(0.0));
        }
        noise
    }

    /// Returns whether the variation between runs was measured.
    pub(super) fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// Returns the standard deviation of a function between runs, as a share; `None` if it is not known.
    pub(super) fn deviation(&self) -> Option<f64> {
        self.shared.map(f64::sqrt)
    }

    /// Returns the values relative to the speed of their runs.
    pub(super) fn relative(&self, pair: &Pair) -> Pair {
        let (base, new) = self.speeds.split_at(self.base_runs);
        Pair { base: pair.base.relative_to(base), new: pair.new.relative_to(new) }
    }

    /// Tests whether a function changed, given its values relative to the speed of their runs.
    pub(super) fn test(&self, relative: &Pair) -> Tested {
        let own = relative.variation();
        let (between, freedom) = match (self.is_measured, own, self.shared) {
            (false, ..) => (ASSUMED_VARIATION.powi(2), f64::INFINITY),
            (true, None, _) => (ASSUMED_VARIATION.powi(2), 1.0),
            (true, Some(own), Some(shared)) if !own.is_above(shared) => {
                let excess = own.all - own.sampling;
                let all = SHARED_FREEDOM + own.freedom;
                (((SHARED_FREEDOM * shared + own.freedom * excess) / all).max(0.0), all)
            }
            (true, Some(own), _) => ((own.all - own.sampling).max(0.0), own.freedom),
        };
        tested(relative, between, freedom)
    }

    /// Tests whether the total changed: what it varies by is known only by itself.
    pub(super) fn test_total(&self, total: &Pair) -> Tested {
        match self.is_measured {
            true => Self { shared: None, ..self.clone() }.test(total),
            false => tested(total, ASSUMED_TOTAL_VARIATION.powi(2), f64::INFINITY),
        }
    }
}

impl Variation {
    /// Returns whether it is clearly more than sampling and `shared` explain: that happens to one in a hundred by chance.
    fn is_above(&self, shared: f64) -> bool {
        const QUANTILE: f64 = 2.326;
        let part = 2.0 / (9.0 * self.freedom);
        let limit = (1.0 - part + QUANTILE * part.sqrt()).powi(3);
        self.all > limit * (self.sampling + shared)
    }
}

/// Returns the speed of each run: the median of what functions cost in it, relative to their means over all runs.
fn speeds(pairs: &[&Pair], runs: usize) -> Vec<f64> {
    let mut relative: Vec<Vec<(f64, f64)>> = vec![Vec::with_capacity(pairs.len()); runs];
    for pair in pairs {
        let mean = pair.values().sum::<f64>() / runs as f64;
        for (run, value) in pair.values().enumerate().filter(|_| mean > 0.0) {
            relative[run].push((value / mean, mean.sqrt()));
        }
    }
    let median = |values: &mut Vec<(f64, f64)>| weighted_median(values).filter(|speed| *speed > 0.0);
    relative.iter_mut().map(|values| median(values).unwrap_or(1.0)).collect()
}

fn tested(pair: &Pair, between: f64, freedom: f64) -> Tested {
    let [base, new] = [&pair.base, &pair.new].map(|side| side.variance_of_mean(between));
    let (sampling, runs) = (base[0] + new[0], base[1] + new[1]);
    let variance = sampling + runs;
    if variance <= 0.0 {
        return Tested { sigmas: 0.0, p: 1.0 };
    }
    // Satterthwaite: sampling noise is known, the variation between runs only estimated.
    let freedom = if runs > 0.0 { variance.powi(2) / (runs.powi(2) / freedom) } else { f64::INFINITY };
    let sigmas = pair.change() / variance.sqrt();
    Tested { sigmas, p: two_sided_p(sigmas, freedom) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: &[f64], sampling: f64) -> Values {
        Values { values: values.to_vec(), sampling: vec![sampling; values.len()] }
    }

    /// Tests one function alone.
    fn p_of(pair: &Pair) -> f64 {
        RunNoise::of(&[pair], [pair.base.values.len(), pair.new.values.len()]).test(pair).p
    }

    #[test]
    fn one_run_a_side_proves_only_large_changes() {
        let pair = |new| Pair { base: side(&[10_000.0], 10_000.0), new: side(&[new], 10_000.0) };
        assert!(!RunNoise::of(&[&pair(1.0)], [1, 1]).is_measured());
        assert!(p_of(&pair(11_500.0)) > 0.05, "15 % more, as runs of a server differ");
        assert!(p_of(&pair(18_000.0)) < 1e-4, "80 % more");
    }

    /// A server that was recorded for as long, and served twice as much.
    #[test]
    fn one_run_that_did_more_work_is_no_change() {
        let more = Pair { base: side(&[1000.0], 1.0), new: side(&[2000.0], 1.0) };
        let noise = RunNoise::of(&[&more; 8], [1, 1]);
        assert!(noise.test(&noise.relative(&more)).p > 0.5);
        assert!(noise.test_total(&more).p > 0.05);
    }

    #[test]
    fn runs_that_differ_hide_what_runs_that_agree_show() {
        let calm =
            Pair { base: side(&[1000.0, 1001.0, 999.0], 1.0), new: side(&[1050.0, 1051.0, 1049.0], 1.0) };
        let loud =
            Pair { base: side(&[1000.0, 1200.0, 800.0], 1.0), new: side(&[1050.0, 1250.0, 850.0], 1.0) };
        assert!(p_of(&calm) < 1e-6);
        assert!(p_of(&loud) > 0.3);
    }

    #[test]
    fn one_slow_run_is_no_change() {
        let pair =
            Pair { base: side(&[1000.0, 1010.0, 990.0], 1.0), new: side(&[1005.0, 995.0, 1400.0], 1.0) };
        assert!(p_of(&pair) > 0.05);
    }

    #[test]
    fn the_speed_of_a_run_is_no_change_of_a_function() {
        let slow = Pair { base: side(&[1000.0; 3], 1.0), new: side(&[1300.0; 3], 1.0) };
        let more = Pair { base: side(&[1000.0; 3], 1.0), new: side(&[1430.0; 3], 1.0) };
        let pairs = [&slow, &slow, &slow, &slow, &slow, &slow, &slow, &more];
        let noise = RunNoise::of(&pairs, [3, 3]);
        assert!(noise.test(&noise.relative(&slow)).p > 0.5);
        let relative = noise.relative(&more);
        assert!(noise.test(&relative).p < 1e-6);
        assert!((relative.new.mean() / relative.base.mean() - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_calm_function_of_a_program_that_varies_is_not_believed() {
        let lucky = Pair { base: side(&[1000.0; 3], 1.0), new: side(&[1030.0; 3], 1.0) };
        // Each varies by a tenth, and their median stays where it is.
        let loud: Vec<Pair> = [[1.0, 1.1, 0.9], [1.1, 0.9, 1.0], [0.9, 1.0, 1.1]]
            .into_iter()
            .cycle()
            .take(9)
            .map(|runs| runs.map(|run| run * 1000.0))
            .map(|runs| Pair { base: side(&runs, 1.0), new: side(&runs, 1.0) })
            .collect();
        let pairs: Vec<&Pair> = loud.iter().chain([&lucky]).collect();
        let noise = RunNoise::of(&pairs, [3, 3]);
        assert!(p_of(&lucky) < 1e-6);
        assert!(noise.test(&noise.relative(&lucky)).p > 0.05);
    }

    #[test]
    fn what_was_never_seen_may_have_been_missed() {
        let mut pair = Pair { base: side(&[0.0], 0.0), new: side(&[2.0], 2.0) };
        pair.base.floor(&[1.0]);
        assert!(p_of(&pair) > 0.1);
    }
}
