//! How often comparisons are wrong: simulated pairs of sides in which nothing, or one function, changed.

use super::costs::{Amount, FunctionCost, RunCosts};
use super::{Comparison, Diff, Sides};
use flamelet_profile::Observed;
use rustc_hash::FxHashMap;

/// A xorshift generator: the same numbers every time.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a normal variable, by the Box-Muller method.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// Returns a Poisson variable; above 50, the rounded normal one is as good.
    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (limit, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}

/// How runs of one program differ.
#[derive(Clone, Copy, Debug)]
enum Variance {
    /// Not at all: only sampling.
    None,
    /// The whole machine is faster or slower.
    Machine(f64),
    /// Each function for itself.
    Functions(f64),
    /// One run in ten takes a third longer.
    SlowRuns,
    /// One function is slower in one run of five, as by the layout of its code; the others vary by a percent.
    TwoSpeeds,
}

const MODELS: [Variance; 6] = [
    Variance::None,
    Variance::Machine(0.03),
    Variance::Functions(0.02),
    Variance::Functions(0.08),
    Variance::SlowRuns,
    Variance::TwoSpeeds,
];

/// The observations of a run: a hundred seconds of one thread at the usual rate, or ten of ten.
const OBSERVATIONS: f64 = 100_000.0;

/// The shares of the functions: some large ones and many small ones, as in most programs.
fn shares() -> Vec<f64> {
    let raw: Vec<f64> = (0..60).map(|rank| 1.0 / (f64::from(rank) + 1.5)).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|share| share / sum).collect()
}

/// Simulates a run in which the first function costs `factor` times as much.
fn run(random: &mut Random, variance: Variance, factor: f64) -> RunCosts {
    let machine = match variance {
        Variance::Machine(deviation) => (deviation * random.normal()).exp(),
        Variance::SlowRuns if random.uniform() < 0.1 => 1.33,
        _ => 1.0,
    };
    let mut functions: FxHashMap<String, FunctionCost> = FxHashMap::default();
    let mut total = Amount::default();
    for (at, share) in shares().into_iter().enumerate() {
        let own = match variance {
            Variance::Functions(deviation) => (deviation * random.normal()).exp(),
            Variance::TwoSpeeds if at == 2 && random.uniform() < 0.2 => 1.4,
            Variance::TwoSpeeds if at == 2 => 1.0,
            Variance::TwoSpeeds => (0.01 * random.normal()).exp(),
            _ => 1.0,
        };
        let planted = if at == 0 { factor } else { 1.0 };
        let count = random.poisson(OBSERVATIONS * share * machine * own * planted);
        // Each observation stands for four periods, as on a kernel whose tick is slower than the rate.
        let amount = Amount { value: count * 4.0, observed: Observed { count, squares: count * 16.0 } };
        total += amount;
        functions.insert(
            format!("f{at}"),
            FunctionCost { flat: amount, cum: amount, charged: 0.0, owner: "yours" },
        );
    }
    RunCosts { functions, total, set_aside: 0.0 }
}

fn compared(random: &mut Random, variance: Variance, factor: f64, runs: usize) -> Diff {
    let base: Vec<RunCosts> = (0..runs).map(|_| run(random, variance, 1.0)).collect();
    let new = (0..runs).map(|_| run(random, variance, factor));
    let costs: Vec<RunCosts> = base.into_iter().chain(new).collect();
    Sides::of(&costs, runs).answer(&Comparison { min_share: 0.01, ..Comparison::default() })
}

fn fails(diff: &Diff, limit: f64) -> bool {
    !diff.offenders(limit, 0.01).is_empty() || diff.has_total_grown(limit)
}

/// At most one pair in a hundred fails, over all models; two runs a side know too little of what only some runs have.
#[test]
fn unchanged_programs_do_not_fail() {
    for (runs, most) in [(1, 12), (2, 24), (3, 12), (5, 12)] {
        let mut failed = 0;
        for (number, &variance) in MODELS.iter().enumerate() {
            let mut random = Random::new(1000 * runs as u64 + number as u64 + 1);
            let of_model =
                (0..200).filter(|_| fails(&compared(&mut random, variance, 1.0, runs), 0.05)).count();
            println!("{runs} runs a side, {variance:?}: {of_model} of 200 unchanged pairs fail");
            failed += of_model;
            assert!(of_model <= 2 || runs == 2, "{runs} runs a side, {variance:?}: {of_model} of 200 fail");
        }
        println!("{runs} runs a side: {failed} of {} unchanged pairs fail", 200 * MODELS.len());
        assert!(failed <= most, "{runs} runs a side: {failed} unchanged pairs fail");
    }
}

#[test]
fn planted_changes_are_found() {
    for variance in [Variance::None, Variance::Functions(0.003), Variance::Machine(0.03)] {
        for (growth, least) in [(0.05, 80.0), (0.10, 95.0), (0.20, 100.0)] {
            let mut random = Random::new((growth * 1000.0) as u64 + 7);
            // The limit is below what is planted: a change as large as the limit passes every other time.
            let found = (0..200).filter(|_| {
                let diff = compared(&mut random, variance, 1.0 + growth, 3);
                diff.offenders(growth / 2.0, 0.01).iter().any(|row| row.name == "f0")
            });
            let percent = found.count() as f64 / 2.0;
            println!("{variance:?}: {percent} % of planted {:.0} % found", growth * 100.0);
            assert!(percent >= least, "{variance:?}: {percent} % of planted {growth} found");
        }
    }
}

/// A plain z-test without the variation between runs would fail here: the simulation is sensitive enough.
#[test]
fn the_simulation_finds_a_test_that_is_too_bold() {
    let mut random = Random::new(5);
    let bold = (0..200).filter(|_| {
        let diff = compared(&mut random, Variance::Functions(0.08), 1.0, 1);
        diff.rows.iter().any(|row| {
            let sampling = ((row.base_flat + row.new_flat) as f64 * 4.0).sqrt();
            row.flat_change() as f64 > 3.0 * sampling && row.flat_change() * 20 > row.base_flat
        })
    });
    assert!(bold.count() > 100);
}
