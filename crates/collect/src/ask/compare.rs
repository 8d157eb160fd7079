//! Compares the versions of a service: what got slower with a deploy, beyond noise.
//!
//! A version has several windows of time, which count as runs. Functions are compared by the share that they have of the
//! CPU time of their window, so that more traffic is not a regression; what slows everything down alike is therefore not
//! seen. [`flamelet_report::diff`] has the statistics.

use std::collections::{BTreeMap, HashMap};

use flamelet_profile::{Profile, Result, Sample};
use flamelet_report::diff::{Comparison, Diff, DiffRow, LEVEL, Run, RunCosts, diff_shares};
use flamelet_report::{Owners, Report, ReportKind, ReportOptions};
use serde::Serialize;

use crate::block::merge::PART;

/// The windows of a version.
pub(crate) const WINDOWS: u32 = 12;
/// With fewer windows, too little is known about how much they differ.
const FEWEST_WINDOWS: usize = 3;
/// Windows with less than this share of the usual CPU time are left out: a rollout begins with a few requests.
const LEAST_OF_MEDIAN: f64 = 0.25;
/// Functions with a smaller share of the CPU time are not looked at.
const MIN_SHARE: f64 = 0.01;
/// A smaller growth is not worth mentioning.
const MIN_GROWTH: f64 = 0.02;
/// How many functions of a deploy are listed at most.
const MOST_ROWS: usize = 20;

/// A deploy: two versions, one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Deploy {
    /// The version before.
    pub before: String,
    /// The version after.
    pub after: String,
    /// When the version after was first seen, in nanoseconds since 1970.
    #[serde(serialize_with = "super::json::as_moment")]
    pub since: i64,
    /// How many windows of each were compared.
    pub windows: [usize; 2],
    /// How many costs were tested.
    pub tested: usize,
    /// The functions that got slower, those that explain most first.
    pub slower: Vec<Slower>,
    /// Functions that the version before does not have. They are not counted as slower: they may have another name
    /// now, and if they cost more than what they replace, a function that calls them got slower.
    pub new_functions: Vec<NewFunction>,
}

/// A function that got slower.
#[derive(Clone, Debug, Serialize)]
pub struct Slower {
    /// The function.
    pub function: String,
    /// Whose code it is: `yours`, `dependency`, `std`, `runtime`, `system`, `kernel`, `unknown`.
    pub owner: &'static str,
    /// The file of its most expensive line in the version after; empty if it is not known.
    pub file: String,
    /// That line, or 0.
    pub line: i64,
    /// Whether the shares include what the function calls.
    pub with_callees: bool,
    /// The share of the service's CPU time before.
    pub share_before: f64,
    /// The share after.
    pub share_after: f64,
    /// How much more it costs relative to the other functions: 0.05 is 5 %.
    pub growth: f64,
    /// The change in standard deviations.
    pub sigmas: f64,
    /// One minus the probability that chance alone makes any function of any compared deploy look this much slower.
    pub confidence: f64,
}

/// A function that was not there before.
#[derive(Clone, Debug, Serialize)]
pub struct NewFunction {
    /// The function.
    pub function: String,
    /// Whose code it is.
    pub owner: &'static str,
    /// The share of the service's CPU time, with what it calls.
    pub share: f64,
}

/// A version to compare: its samples are in the parts `number * WINDOWS ..` of the profile.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) since: i64,
}

impl Side {
    /// Returns whether a part is a window of this version.
    fn has(&self, part: u32) -> bool {
        part / WINDOWS == self.number
    }
}

/// Compares each version with the one before it. `comparisons` is how many are compared in all, in other services too.
/// Returns a line for each that cannot be compared.
pub(crate) fn deploys(
    profile: &Profile,
    sides: &[Side],
    comparisons: usize,
) -> Result<(Vec<Deploy>, Vec<String>)> {
    // Before the report takes the paths of functions away.
    let owners = Owners::of(profile, |_, _| false);
    let options = ReportOptions::default();
    let run = Run::new(profile.clone(), owners, |profile| Report::new(profile, &options, ReportKind::Diff))?;
    let value = run.report().value_index();
    let parts: BTreeMap<u32, RunCosts> = run
        .costs_by_label(PART)
        .into_iter()
        .filter_map(|(part, costs)| Some((part.parse().ok()?, costs)))
        .collect();
    drop(run);
    let mut notes = Vec::new();
    let mut deploys = Vec::new();
    for pair in sides.windows(2) {
        let [base, new] = [&pair[0], &pair[1]].map(|side| windows(side, &parts));
        let short = [&base, &new].into_iter().zip(pair).find(|(windows, _)| windows.len() < FEWEST_WINDOWS);
        if let Some((windows, side)) = short {
            notes.push(format!(
                "{} and {} were not compared: {} has profiles in {} of {WINDOWS} windows, and {FEWEST_WINDOWS} are needed",
                pair[0].name,
                pair[1].name,
                side.name,
                windows.len()
            ));
            continue;
        }
        let level = LEVEL / comparisons.max(1) as f64;
        let comparison = Comparison { min_share: MIN_SHARE, level, ..Comparison::default() };
        let diff = diff_shares(&base, &new, &comparison);
        let mut deploy = deploy(&diff, comparisons, &pair[0], &pair[1]);
        add_places(&mut deploy.slower, profile, value, &pair[1]);
        deploys.push(deploy);
    }
    Ok((deploys, notes))
}

/// Returns the windows of a version that have enough to compare.
fn windows<'a>(side: &Side, parts: &'a BTreeMap<u32, RunCosts>) -> Vec<&'a RunCosts> {
    let own: Vec<&RunCosts> = parts.iter().filter(|(part, _)| side.has(**part)).map(|(_, run)| run).collect();
    let mut totals: Vec<f64> = own.iter().map(|run| run.total()).collect();
    totals.sort_by(f64::total_cmp);
    let least = totals.get(totals.len() / 2).copied().unwrap_or(0.0) * LEAST_OF_MEDIAN;
    own.into_iter().filter(|run| run.total() > 0.0 && run.total() >= least).collect()
}

fn deploy(diff: &Diff, comparisons: usize, before: &Side, after: &Side) -> Deploy {
    let share = |value: i64, total: i64| if total > 0 { value as f64 / total as f64 } else { 0.0 };
    let mut slower = Vec::new();
    let mut new_functions = Vec::new();
    for row in &diff.rows {
        let share_after = share(row.new_cum, diff.new_total);
        if row.base_cum == 0 && row.is_real() && share_after >= MIN_SHARE {
            new_functions.push(NewFunction {
                function: row.name.clone(),
                owner: row.owner,
                share: share_after,
            });
        } else if let Some(cost) = costs_of(row).into_iter().find(|cost| cost.has_grown(diff)) {
            slower.push(Slower {
                function: row.name.clone(),
                owner: row.owner,
                file: String::new(),
                line: 0,
                with_callees: cost.with_callees,
                share_before: share(cost.base, diff.base_total),
                share_after: share(cost.new, diff.new_total),
                growth: cost.growth.unwrap_or(0.0),
                sigmas: cost.sigmas,
                confidence: 1.0 - (cost.p * (diff.tested * comparisons) as f64).min(1.0),
            });
        }
    }
    slower.truncate(MOST_ROWS);
    new_functions.truncate(MOST_ROWS);
    Deploy {
        before: before.name.clone(),
        after: after.name.clone(),
        since: after.since,
        windows: [diff.base_runs, diff.new_runs],
        tested: diff.tested,
        slower,
        new_functions,
    }
}

/// One of the two costs of a function.
struct FunctionCost {
    with_callees: bool,
    base: i64,
    new: i64,
    is_real: bool,
    growth: Option<f64>,
    sigmas: f64,
    p: f64,
}

impl FunctionCost {
    fn has_grown(&self, diff: &Diff) -> bool {
        let is_large = self.new as f64 >= diff.new_total as f64 * MIN_SHARE;
        self.is_real && is_large && self.growth.is_some_and(|growth| growth > MIN_GROWTH)
    }
}

/// Returns the own cost of a function, and the one with what it calls.
fn costs_of(row: &DiffRow) -> [FunctionCost; 2] {
    [
        FunctionCost {
            with_callees: false,
            base: row.base_flat,
            new: row.new_flat,
            is_real: row.flat_is_real,
            growth: row.flat_growth,
            sigmas: row.flat_sigmas,
            p: row.flat_p,
        },
        FunctionCost {
            with_callees: true,
            base: row.base_cum,
            new: row.new_cum,
            is_real: row.cum_is_real,
            growth: row.cum_growth,
            sigmas: row.cum_sigmas,
            p: row.cum_p,
        },
    ]
}

/// Finds the most expensive line of each function in a version.
fn add_places(rows: &mut [Slower], profile: &Profile, value: usize, side: &Side) {
    let wanted: HashMap<&str, usize> =
        rows.iter().enumerate().map(|(at, row)| (&*row.function, at)).collect();
    let mut lines: BTreeMap<(usize, &str, i64), i64> = BTreeMap::new();
    for sample in
        profile.samples().filter(|sample| part_of(profile, sample).is_some_and(|part| side.has(part)))
    {
        for line in profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location)) {
            let Some(function) = line.function.map(|function| profile.function(function)) else { continue };
            let Some(&at) = wanted.get(profile.string(function.name)) else { continue };
            let sum = lines.entry((at, profile.string(function.filename), line.line)).or_default();
            *sum = sum.saturating_add(sample.values[value]);
        }
    }
    let mut most: HashMap<usize, (i64, String, i64)> = HashMap::new();
    for ((at, file, line), sum) in lines {
        if most.get(&at).is_none_or(|known| sum > known.0) {
            most.insert(at, (sum, file.to_owned(), line));
        }
    }
    for (at, (_, file, line)) in most {
        (rows[at].file, rows[at].line) = (file, line);
    }
}

fn part_of(profile: &Profile, sample: &Sample<'_>) -> Option<u32> {
    let labels = profile.labels(sample.labels);
    let label = labels.iter().find(|label| profile.string(label.key) == PART)?;
    profile.string(label.text).parse().ok()
}
