//! `diff` and `check`: what changed between two sides of one or several runs each, and whether it is more than noise.
//!
//! Two kinds of noise are distinguished. Sampling noise follows from the number of observations behind a value. How much
//! runs of the same program differ is measured if a side has several runs, and assumed otherwise. Whether a change is
//! more than both is tested for the total and for every function with a share worth mentioning; with Holm's method, the
//! probability that any of them is called changed by chance is at most [`LEVEL`].

mod costs;
mod kernel_noise;
mod noise;
#[cfg(test)]
mod simulation;
mod statistics;

use flamelet_profile::Profile;
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::report::Report;
pub use costs::RunCosts;
pub use noise::ASSUMED_VARIATION;
use noise::{FEWEST_FUNCTIONS, Pair, RunNoise, Tested, Values};
use statistics::{holm, median};

/// The probability that anything is called changed by chance.
pub const LEVEL: f64 = 0.005;

/// The comment that says how much work a run did, followed by a number.
pub const WORK_COMMENT: &str = "flamelet: work done: ";

/// One function on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct DiffRow {
    /// The function.
    pub name: String,
    /// Whose code it is: `yours`, `dependency`, `std`, `runtime`, `system`, `kernel`, `unknown`.
    pub owner: &'static str,
    /// Its own cost in the base; the median of several runs.
    pub base_flat: i64,
    /// Its own cost in the new profile.
    pub new_flat: i64,
    /// Its cumulative cost in the base.
    pub base_cum: i64,
    /// Its cumulative cost in the new profile.
    pub new_cum: i64,
    /// How much more is charged to it: for a function of yours, its own cost and that of others' code that it calls.
    pub charged_change: i64,
    /// How many standard deviations its own cost changed by.
    pub flat_sigmas: f64,
    /// How many standard deviations its cumulative cost changed by.
    pub cum_sigmas: f64,
    /// Whether its own cost changed by more than noise.
    pub flat_is_real: bool,
    /// Whether its cumulative cost changed by more than noise.
    pub cum_is_real: bool,
    /// The growth of its own cost from median to median, as a share, relative to the speed of the runs; `None` if the base
    /// has none.
    pub flat_growth: Option<f64>,
    /// The growth of its cumulative cost.
    pub cum_growth: Option<f64>,
    /// The probability that chance alone changes its own cost by this much, not corrected for the number of tests.
    #[serde(skip)]
    pub flat_p: f64,
    /// The same for its cumulative cost.
    #[serde(skip)]
    pub cum_p: f64,
}

impl DiffRow {
    /// Returns the change of its own cost.
    pub fn flat_change(&self) -> i64 {
        self.new_flat.saturating_sub(self.base_flat)
    }

    /// Returns the change of its cumulative cost.
    pub fn cum_change(&self) -> i64 {
        self.new_cum.saturating_sub(self.base_cum)
    }

    /// Returns whether either change is more than noise.
    pub fn is_real(&self) -> bool {
        self.flat_is_real || self.cum_is_real
    }
}

/// The answer of `diff`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// What is compared: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// How many runs the base has.
    pub base_runs: usize,
    /// How many runs the new side has.
    pub new_runs: usize,
    /// Whether a side has several runs, so that it is known how much they differ.
    pub knows_runs: bool,
    /// The standard deviation of a function between runs of one side, as a share of its value, in addition to sampling and the
    /// speed of the runs; `None` if it is not known.
    pub run_deviation: Option<f64>,
    /// What the values are scaled to: `work`, `total`, or nothing.
    pub scaled_to: Option<&'static str>,
    /// The share of each side that is set aside: kernel interrupts and context switches.
    pub set_aside: [f64; 2],
    /// The total of the base; the median of several runs.
    pub base_total: i64,
    /// The total of the new side.
    pub new_total: i64,
    /// How many standard deviations the total changed by.
    pub total_sigmas: f64,
    /// Whether the total changed by more than noise.
    pub total_is_real: bool,
    /// The growth of the total from median to median, as a share.
    pub total_growth: Option<f64>,
    /// How many changes were tested.
    pub tested: usize,
    /// The functions: real changes first, your code first, then by how much they explain.
    pub rows: Vec<DiffRow>,
}

/// One run of one side.
pub struct Run {
    report: Report,
    owners: Owners,
    work: Option<f64>,
}

impl Run {
    /// Prepares a profile for a comparison. The owners and the work are those of the whole profile, before filters.
    pub fn new(
        profile: Profile,
        owners: Owners,
        prepare: impl FnOnce(Profile) -> flamelet_profile::Result<Report>,
    ) -> flamelet_profile::Result<Self> {
        let mut comments = profile.comments();
        let work: Option<f64> =
            comments.find_map(|comment| comment.strip_prefix(WORK_COMMENT)?.trim().parse().ok());
        drop(comments);
        Ok(Self { report: prepare(profile)?, owners, work: work.filter(|work| *work > 0.0) })
    }

    /// Returns the prepared profile.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the costs of the samples with each value of a label, in the order of the values: several runs in one
    /// profile.
    pub fn costs_by_label(&self, key: &str) -> Vec<(String, RunCosts)> {
        RunCosts::by_label(&self.report, &self.owners, key)
    }
}

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Sort by cumulative cost.
    pub by_cum: bool,
    /// Scale every run to the total of the base.
    pub normalize: bool,
    /// Functions below this share of both sides are not tested.
    pub min_share: f64,
    /// The probability that anything is called changed by chance.
    pub level: f64,
}

impl Default for Comparison {
    fn default() -> Self {
        Self { by_cum: false, normalize: false, min_share: 0.005, level: LEVEL }
    }
}

/// Compares two sides of one or several runs each, all of the same kind.
pub fn diff(base: &[Run], new: &[Run], comparison: &Comparison) -> Diff {
    let (factors, scaled_to) = factors(base, new, comparison);
    let costs: Vec<RunCosts> = base
        .iter()
        .chain(new)
        .zip(&factors)
        .map(|(run, &factor)| RunCosts::of(&run.report, &run.owners, factor))
        .collect();
    let sides = Sides::of(&costs, base.len());
    let mut answer = sides.answer(comparison);
    if let Some(run) = new.first() {
        answer.sample_type = run.report.value_name();
        answer.unit = run.report.unit().to_string();
    }
    answer.scaled_to = scaled_to;
    answer
}

/// Compares two sides of one or several runs each by the share that functions have of their run: a run that did more
/// work is not slower.
pub fn diff_shares(base: &[&RunCosts], new: &[&RunCosts], comparison: &Comparison) -> Diff {
    let totals: Vec<f64> = base.iter().chain(new).map(|run| run.total.value).collect();
    let factors = scaled_to_base(totals, base.len());
    let costs: Vec<RunCosts> =
        base.iter().chain(new).zip(factors).map(|(run, factor)| run.scaled(factor)).collect();
    Diff { scaled_to: Some("total"), ..Sides::of(&costs, base.len()).answer(comparison) }
}

/// Returns what to multiply values of runs of these sizes by, so that all are as large as those of the base are on
/// average.
fn scaled_to_base(sizes: Vec<f64>, base_runs: usize) -> Vec<f64> {
    let wanted = statistics::mean(&sizes[..base_runs]);
    sizes.into_iter().map(|size| if size == 0.0 { 1.0 } else { wanted / size }).collect()
}

/// Returns what to multiply the values of each run by, and what that scales them to.
fn factors(base: &[Run], new: &[Run], comparison: &Comparison) -> (Vec<f64>, Option<&'static str>) {
    let runs = || base.iter().chain(new);
    let scaled = |sizes: Vec<f64>| scaled_to_base(sizes, base.len());
    if comparison.normalize {
        return (scaled(runs().map(|run| run.report.total as f64).collect()), Some("total"));
    }
    match runs().map(|run| run.work).collect::<Option<Vec<f64>>>() {
        Some(works) => (scaled(works), Some("work")),
        None => (vec![1.0; base.len() + new.len()], None),
    }
}

/// One function on both sides, before it is tested.
#[derive(Clone, Debug)]
struct FunctionPair {
    flat: Pair,
    cum: Pair,
    charged: [f64; 2],
    owner: &'static str,
}

/// Everything that is compared.
struct Sides {
    entries: Vec<(String, FunctionPair)>,
    total: Pair,
    set_aside: [f64; 2],
    runs: [usize; 2],
}

impl Sides {
    fn of(costs: &[RunCosts], base_runs: usize) -> Self {
        let (base, new) = costs.split_at(base_runs);
        let empty = || Pair { base: Values::with_runs(base.len()), new: Values::with_runs(new.len()) };
        let mut entries: FxHashMap<&str, FunctionPair> = FxHashMap::default();
        let mut total = empty();
        for (side, runs) in [base, new].into_iter().enumerate() {
            let of = |pair: &mut Pair, run: usize, amount: costs::Amount| {
                let values = if side == 0 { &mut pair.base } else { &mut pair.new };
                values.add(run, amount.value, amount.observed);
            };
            for (number, run) in runs.iter().enumerate() {
                of(&mut total, number, run.total);
                for (name, cost) in &run.functions {
                    let entry = entries.entry(name.as_str()).or_insert_with(|| FunctionPair {
                        flat: empty(),
                        cum: empty(),
                        charged: [0.0; 2],
                        owner: cost.owner,
                    });
                    of(&mut entry.flat, number, cost.flat);
                    of(&mut entry.cum, number, cost.cum);
                    entry.charged[side] += cost.charged / runs.len() as f64;
                }
            }
        }
        let one = [base, new].map(|runs| runs.iter().map(one_observation).collect::<Vec<f64>>());
        let floor = |pair: &mut Pair| {
            pair.base.floor(&one[0]);
            pair.new.floor(&one[1]);
        };
        let mut entries: Vec<(String, FunctionPair)> =
            entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
        for (_, entry) in &mut entries {
            floor(&mut entry.flat);
            floor(&mut entry.cum);
        }
        // Hash maps have no order, and equal inputs give equal answers.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Self { entries, total, set_aside: [base, new].map(set_aside_share), runs: [base.len(), new.len()] }
    }

    /// Returns the costs that show how runs differ: what functions take themselves. Where only few do, because the same code is
    /// inlined into all of them, also what they take with what they call, but for the trunk of the call tree, which is the total.
    fn usual(&self, is_large: impl Fn(&Pair) -> bool) -> Vec<&Pair> {
        let is_trunk = |pair: &Pair| pair.base.mean() > self.total.base.mean() / 2.0;
        let flats = self.entries.iter().map(|(_, entry)| &entry.flat);
        let mut usual: Vec<&Pair> = flats.filter(|pair| is_large(pair)).collect();
        if usual.len() < FEWEST_FUNCTIONS {
            let cums = self.entries.iter().map(|(_, entry)| &entry.cum);
            usual.extend(cums.filter(|pair| is_large(pair) && !is_trunk(pair)));
        }
        usual
    }

    fn answer(&self, comparison: &Comparison) -> Diff {
        let is_large = |pair: &Pair| {
            let share = |side: &Values, total: &Values| side.mean() >= total.mean() * comparison.min_share;
            (share(&pair.base, &self.total.base) || share(&pair.new, &self.total.new))
                && pair.base.mean() + pair.new.mean() > 0.0
        };
        let noise = RunNoise::of(&self.usual(is_large), self.runs);
        let total = noise.test_total(&self.total);
        let test = |pair: &Pair| {
            let relative = noise.relative(pair);
            (noise.test(&relative), growth(&relative))
        };
        let flats: Vec<_> = self.entries.iter().map(|(_, entry)| test(&entry.flat)).collect();
        let cums: Vec<_> = self.entries.iter().map(|(_, entry)| test(&entry.cum)).collect();
        // What is tested: the total, and each cost with a share worth mentioning. A leaf's two costs are one.
        let mut tested = vec![(None, false)];
        for (at, (_, entry)) in self.entries.iter().enumerate() {
            if is_large(&entry.flat) {
                tested.push((Some(at), false));
            }
            if is_large(&entry.cum) && entry.cum.base.values != entry.flat.base.values
                || is_large(&entry.cum) && entry.cum.new.values != entry.flat.new.values
            {
                tested.push((Some(at), true));
            }
        }
        let p_of = |&(at, is_cum): &(Option<usize>, bool)| match at {
            None => total.p,
            Some(at) if is_cum => cums[at].0.p,
            Some(at) => flats[at].0.p,
        };
        let significant = holm(&tested.iter().map(p_of).collect::<Vec<f64>>(), comparison.level);
        let mut real = vec![[false; 2]; self.entries.len()];
        for (&(at, is_cum), _) in tested.iter().zip(&significant).filter(|(_, is_real)| **is_real) {
            if let Some(at) = at {
                real[at][usize::from(is_cum)] = true;
            }
        }
        let rows = self.entries.iter().enumerate();
        let rows = rows.map(|(at, (name, entry))| row(name, entry, [flats[at], cums[at]], real[at]));
        let mut rows: Vec<DiffRow> =
            rows.filter(|row| row.flat_change() != 0 || row.cum_change() != 0).collect();
        sort(&mut rows, comparison.by_cum);
        Diff {
            sample_type: String::new(),
            unit: String::new(),
            base_runs: self.runs[0],
            new_runs: self.runs[1],
            knows_runs: noise.is_measured(),
            run_deviation: noise.deviation(),
            scaled_to: None,
            set_aside: self.set_aside,
            base_total: shown(&self.total.base),
            new_total: shown(&self.total.new),
            total_sigmas: total.sigmas,
            total_is_real: significant[0],
            total_growth: growth(&self.total),
            tested: tested.len(),
            rows,
        }
    }
}

/// Returns the variance of a value that is based on one observation of a run.
fn one_observation(run: &RunCosts) -> f64 {
    let total = run.total;
    if total.value > 0.0 { (total.observed.squares / total.value).powi(2) } else { 0.0 }
}

fn set_aside_share(runs: &[RunCosts]) -> f64 {
    let set_aside: f64 = runs.iter().map(|run| run.set_aside).sum();
    let all: f64 = runs.iter().map(|run| run.total.value).sum::<f64>() + set_aside;
    if all > 0.0 { set_aside / all } else { 0.0 }
}

/// A tested change, and the growth.
type Change = (Tested, Option<f64>);

fn row(
    name: &str,
    entry: &FunctionPair,
    [flat, cum]: [Change; 2],
    [flat_is_real, cum_is_real]: [bool; 2],
) -> DiffRow {
    // The cumulative cost of a leaf is its own cost, and was not tested again.
    let is_leaf =
        entry.flat.base.values == entry.cum.base.values && entry.flat.new.values == entry.cum.new.values;
    DiffRow {
        name: name.to_owned(),
        owner: entry.owner,
        base_flat: shown(&entry.flat.base),
        new_flat: shown(&entry.flat.new),
        base_cum: shown(&entry.cum.base),
        new_cum: shown(&entry.cum.new),
        charged_change: (entry.charged[1] - entry.charged[0]).round() as i64,
        flat_sigmas: flat.0.sigmas,
        cum_sigmas: cum.0.sigmas,
        flat_is_real,
        cum_is_real: cum_is_real || is_leaf && flat_is_real,
        flat_growth: flat.1,
        cum_growth: cum.1,
        flat_p: flat.0.p,
        cum_p: cum.0.p,
    }
}

/// Returns what is shown of several runs: like the growth, it does not depend on one extreme run.
fn shown(values: &Values) -> i64 {
    median(&values.values).round() as i64
}

/// Returns the growth from median to median: one extreme run does not make it.
fn growth(pair: &Pair) -> Option<f64> {
    let (base, new) = (median(&pair.base.values), median(&pair.new.values));
    (base != 0.0).then(|| (new - base) / base.abs())
}

/// Sorts real changes first, then your code, then by how much a row explains.
fn sort(rows: &mut [DiffRow], by_cum: bool) {
    let explained = |row: &DiffRow| match row.owner {
        _ if by_cum => row.cum_change().unsigned_abs(),
        "yours" => row.charged_change.unsigned_abs(),
        _ => row.flat_change().unsigned_abs(),
    };
    let key = |row: &DiffRow| {
        let explained = explained(row);
        // A function that only calls others explains nothing, however much they changed.
        (row.is_real() && explained > 0, row.owner == "yours" && explained > 0, explained)
    };
    rows.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
}

impl Diff {
    /// Returns the functions that grew by more than `limit` (0.05 is 5 %) and by more than noise, of those that make
    /// up at least `min_share` of the new total; in the order of the rows.
    pub fn offenders(&self, limit: f64, min_share: f64) -> Vec<&DiffRow> {
        let grew = |change: i64, new: i64, is_real: bool, growth: Option<f64>| {
            let is_large = new.unsigned_abs() as f64 >= self.new_total.unsigned_abs() as f64 * min_share;
            is_large && is_real && change > 0 && growth.is_none_or(|growth| growth > limit)
        };
        let is_offender = |row: &&DiffRow| {
            grew(row.flat_change(), row.new_flat, row.flat_is_real, row.flat_growth)
                || grew(row.cum_change(), row.new_cum, row.cum_is_real, row.cum_growth)
        };
        self.rows.iter().filter(is_offender).collect()
    }

    /// Returns whether the total grew by more than `limit` and by more than noise.
    pub fn has_total_grown(&self, limit: f64) -> bool {
        let has_grown = self.new_total > self.base_total;
        self.total_is_real && has_grown && self.total_growth.is_none_or(|growth| growth > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReportKind, ReportOptions};
    use flamelet_profile::{Line, Mapping, ProfileBuilder};

    fn run(profile: Profile) -> Run {
        let owners = Owners::of(&profile, |name, _| name.starts_with("app::"));
        let options = ReportOptions::default();
        Run::new(profile, owners, |profile| Report::new(profile, &options, ReportKind::Diff))
            .expect("a report")
    }

    /// Builds a profile like perf's: samples and their time, and no period. Each stack, root first, has this many
    /// samples of 10 ms.
    fn sampled(stacks: &[(&str, i64)]) -> Run {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for &(names, samples) in stacks {
            let mut frames: Vec<_> = names
                .split(';')
                .map(|name| {
                    let function = Some(builder.named_function(name, ""));
                    builder.location(None, 0, &[Line { function, line: 0, column: 0 }])
                })
                .collect();
            frames.reverse();
            let stack = builder.stack(&frames);
            builder.sample(stack, Default::default(), &[samples, samples * 10_000_000]);
        }
        run(builder.finish())
    }

    fn compared(base: &[(&str, i64)], new: &[(&str, i64)]) -> Diff {
        diff(&[sampled(base)], &[sampled(new)], &Comparison::default())
    }

    #[test]
    fn noise_is_noise_also_without_a_period() {
        let found = compared(&[("a", 50), ("b", 50)], &[("a", 56), ("b", 47)]);
        assert_eq!(found.unit, "nanoseconds");
        assert!(found.rows.iter().all(|row| !row.is_real()), "{:?}", found.rows);
        let found = compared(&[("a", 50), ("b", 50)], &[("a", 500), ("b", 50)]);
        assert!(found.rows[0].is_real() && found.rows[0].name == "a", "{found:?}");
    }

    #[test]
    fn with_one_run_a_side_only_large_changes_count() {
        let found = compared(&[("a", 50_000), ("b", 50_000)], &[("a", 58_000), ("b", 50_000)]);
        assert!(!found.knows_runs && !found.rows[0].is_real(), "sampling alone would prove it: {found:?}");
        assert!(found.offenders(0.05, 0.01).is_empty());
        let found = compared(&[("a", 50_000), ("b", 50_000)], &[("a", 99_000), ("b", 50_000)]);
        assert_eq!(found.offenders(0.05, 0.01).len(), 1, "{found:?}");
    }

    #[test]
    fn several_runs_a_side_show_small_changes() {
        let side = |counts: [i64; 3]| counts.map(|count| sampled(&[("a", count), ("b", 50_000)]));
        let (base, new) = (side([50_000, 50_300, 49_800]), side([54_000, 54_200, 53_900]));
        let found = diff(&base, &new, &Comparison::default());
        assert!(found.knows_runs);
        let names: Vec<&str> = found.offenders(0.05, 0.01).iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["a"], "{found:?}");
        assert!(found.offenders(0.10, 0.01).is_empty(), "8 % is allowed");
        let found = diff(&base, &side([50_100, 50_200, 49_700]), &Comparison::default());
        assert!(found.rows.iter().all(|row| !row.is_real()), "{found:?}");
    }

    #[test]
    fn runs_of_other_speeds_are_compared_also_if_few_functions_have_a_cost_of_their_own() {
        const NAMES: [&str; 9] = ["a", "second", "c", "d", "e", "f", "g", "h", "i"];
        let run = |speed: f64, second: f64| {
            let cost = |name: &str| 3000.0 * speed * if name == "second" { second } else { 1.0 };
            let stacks = NAMES.map(|name| (format!("main;{name};work"), cost(name) as i64));
            sampled(&stacks.each_ref().map(|(names, cost)| (&**names, *cost)))
        };
        let base = [run(1.8, 1.0), run(1.0, 1.0), run(1.02, 1.0)];
        let new = [run(1.01, 1.2), run(1.0, 1.2), run(0.99, 1.2)];
        let found = diff(&base, &new, &Comparison::default());
        let names: Vec<&str> = found.offenders(0.05, 0.01).iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["second"], "{found:?}");
        let found = diff(&base, &[run(0.99, 1.0), run(1.5, 1.0), run(1.0, 1.0)], &Comparison::default());
        assert!(found.offenders(0.05, 0.01).is_empty(), "{found:?}");
    }

    #[test]
    fn yours_comes_first_by_what_it_explains() {
        let (start, other) = ("_start;main;app::run;app::work;memcpy", "_start;main;app::run;memset");
        let found = compared(&[(start, 1000), (other, 1000)], &[(start, 5000), (other, 1100)]);
        let order: Vec<(&str, i64)> =
            found.rows.iter().map(|row| (&*row.name, row.charged_change / 10_000_000)).collect();
        assert_eq!(order[0], ("app::work", 4000), "what memcpy costs is charged to its caller: {order:?}");
        let place = |name: &str| order.iter().position(|row| row.0 == name).expect("a row");
        assert!(place("memcpy") < place("_start") && place("app::run") < place("_start"), "{order:?}");
    }

    #[test]
    fn interrupts_are_set_aside() {
        let noisy = |count| {
            [
                ("main;read;asm_sysvec_call", count),
                ("main;work", 1000),
                ("main;finish_task_switch.isra.0", count),
            ]
        };
        let found = compared(&noisy(100), &noisy(900));
        assert_eq!((found.base_total, found.new_total), (10_000_000_000, 10_000_000_000));
        assert!(found.rows.is_empty(), "{:?}", found.rows);
        assert!((found.set_aside[0] - 200.0 / 1200.0).abs() < 1e-9 && found.set_aside[1] > 0.6);
    }

    #[test]
    fn values_are_scaled_to_the_work_that_was_done() {
        let with_work = |work: i64, count: i64| {
            let mut builder = ProfileBuilder::new(&[("samples", "count")]);
            let function = Some(builder.named_function("a", ""));
            let location = builder.location(None, 0, &[Line { function, line: 0, column: 0 }]);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[count]);
            builder.comment(&format!("{WORK_COMMENT}{work}"));
            run(builder.finish())
        };
        let found = diff(&[with_work(100, 5000)], &[with_work(200, 10_000)], &Comparison::default());
        assert_eq!((found.base_total, found.new_total, found.scaled_to), (5000, 5000, Some("work")));
    }

    #[test]
    fn what_has_one_name_is_added_up() {
        let unnamed = |costs: [i64; 2]| {
            let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
            for (path, cost) in ["/a/lib.so", "/b/lib.so"].into_iter().zip(costs) {
                let (filename, symbols) = (builder.string(path), Default::default());
                let build_id = builder.string("");
                let mapping = builder.mapping(Mapping {
                    start: 0x1000,
                    limit: 0x2000,
                    offset: 0,
                    filename,
                    build_id,
                    symbols,
                });
                let location = builder.address(Some(mapping), 0x1234);
                let stack = builder.stack(&[location]);
                builder.sample(stack, Default::default(), &[cost]);
            }
            run(builder.finish())
        };
        let found = diff(&[unnamed([100, 7])], &[unnamed([100, 9])], &Comparison::default());
        let costs: Vec<_> = found.rows.iter().map(|row| (row.base_flat, row.new_flat)).collect();
        assert_eq!(costs, [(107, 109)]);
    }
}
