//! `diff` and `check`: what changed between two profiles, and whether it is more than sampling noise.
//!
//! A sampled value is a number of samples times the sampling period, and counts of rare, independent events vary by
//! their square root. A change counts as real when it exceeds [`SIGMAS`] times the combined standard deviation of the
//! two counts; a profile with neither a period nor a number of samples is treated as exact counts.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::info::per_sample;
use crate::report::Report;
use crate::stacks::Nodes;

/// How many standard deviations a change must exceed to be more than noise.
pub const SIGMAS: f64 = 3.0;

/// One function in both profiles.
#[derive(Clone, Debug, Serialize)]
pub struct DiffRow {
    /// The function.
    pub name: String,
    /// Its own cost in the base.
    pub base_flat: i64,
    /// Its own cost in the new profile.
    pub new_flat: i64,
    /// Its cumulative cost in the base.
    pub base_cum: i64,
    /// Its cumulative cost in the new profile.
    pub new_cum: i64,
    /// How many standard deviations its own cost changed by.
    pub flat_sigmas: f64,
    /// How many standard deviations its cumulative cost changed by.
    pub cum_sigmas: f64,
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
        self.flat_sigmas.abs() >= SIGMAS || self.cum_sigmas.abs() >= SIGMAS
    }
}

/// The answer of `diff`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// What is compared: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// The total of the base.
    pub base_total: i64,
    /// The total of the new profile.
    pub new_total: i64,
    /// How many standard deviations the total changed by.
    pub total_sigmas: f64,
    /// The functions, largest change first.
    pub rows: Vec<DiffRow>,
}

/// Compares two reports of the same kind. With `by_cum`, rows are sorted by the change of the cumulative cost.
pub fn diff(base: &Report, new: &Report, by_cum: bool) -> Diff {
    let stands_for =
        |report: &Report| per_sample(&report.profile, report.value_index, |at| report.profile.total(at));
    let weight = Sampling { base: stands_for(base), new: stands_for(new) };
    let mut rows: FxHashMap<String, DiffRow> = FxHashMap::default();
    add(base, &mut rows, |row| (&mut row.base_flat, &mut row.base_cum));
    add(new, &mut rows, |row| (&mut row.new_flat, &mut row.new_cum));
    let mut rows: Vec<DiffRow> = rows.into_values().collect();
    for row in &mut rows {
        row.flat_sigmas = weight.sigmas(row.base_flat, row.new_flat);
        row.cum_sigmas = weight.sigmas(row.base_cum, row.new_cum);
    }
    rows.retain(|row| row.flat_change() != 0 || row.cum_change() != 0);
    rows.sort_by(|a, b| {
        let size = |row: &DiffRow| {
            let (flat, cum) = (row.flat_change().unsigned_abs(), row.cum_change().unsigned_abs());
            if by_cum { (cum, flat) } else { (flat, cum) }
        };
        size(b).cmp(&size(a)).then_with(|| a.name.cmp(&b.name))
    });
    Diff {
        sample_type: new.value_name(),
        unit: new.unit().to_string(),
        base_total: base.total,
        new_total: new.total,
        total_sigmas: weight.sigmas(base.total, new.total),
        rows,
    }
}

fn add(
    report: &Report,
    rows: &mut FxHashMap<String, DiffRow>,
    costs: impl Fn(&mut DiffRow) -> (&mut i64, &mut i64),
) {
    let nodes = Nodes::of(&report.profile, false);
    let weights = report.costs(&nodes);
    for (at, info) in nodes.infos.iter().enumerate() {
        let name = info.printable(&report.profile);
        let row = rows.entry(name.clone()).or_insert_with(|| DiffRow {
            name,
            base_flat: 0,
            new_flat: 0,
            base_cum: 0,
            new_cum: 0,
            flat_sigmas: 0.0,
            cum_sigmas: 0.0,
        });
        // Several nodes can have the same name: unnamed functions in files with equal base names.
        let (flat, cum) = costs(row);
        *flat = flat.saturating_add(weights[at].flat.sum);
        *cum = cum.saturating_add(weights[at].cum.sum);
    }
}

/// How much one sample of each profile stands for.
struct Sampling {
    base: f64,
    new: f64,
}

impl Sampling {
    /// Returns the change in standard deviations: the variance of a value is its number of samples times the square
    /// of what a sample stands for.
    fn sigmas(&self, base: i64, new: i64) -> f64 {
        let variance = base.unsigned_abs() as f64 * self.base + new.unsigned_abs() as f64 * self.new;
        if variance == 0.0 { 0.0 } else { (new as f64 - base as f64) / variance.sqrt() }
    }
}

impl Diff {
    /// Returns the functions that grew by more than `limit` (0.05 is 5 %) and by more than noise, of those that make
    /// up at least `min_share` of the new total; largest growth first.
    pub fn offenders(&self, limit: f64, min_share: f64) -> Vec<&DiffRow> {
        let grew = |base: i64, new: i64, sigmas: f64| {
            let is_large = new.unsigned_abs() as f64 >= self.new_total.unsigned_abs() as f64 * min_share;
            let growth = new as f64 - base as f64;
            is_large && sigmas >= SIGMAS && growth > base.unsigned_abs() as f64 * limit
        };
        let is_offender = |row: &&DiffRow| {
            grew(row.base_flat, row.new_flat, row.flat_sigmas)
                || grew(row.base_cum, row.new_cum, row.cum_sigmas)
        };
        self.rows.iter().filter(is_offender).collect()
    }

    /// Returns whether the total grew by more than `limit` and by more than noise.
    pub fn has_total_grown(&self, limit: f64) -> bool {
        let growth = self.new_total as f64 - self.base_total as f64;
        self.total_sigmas >= SIGMAS && growth > self.base_total.unsigned_abs() as f64 * limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReportKind, ReportOptions};
    use flamelet_profile::{Line, Mapping, ProfileBuilder};

    /// Builds a profile like perf's: samples and their time, and no period. Each function has this many samples of 10
    /// ms.
    fn sampled(functions: &[(&str, i64)]) -> Report {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for &(name, samples) in functions {
            let function = builder.named_function(name, "");
            let location =
                builder.location(None, 0, &[Line { function: Some(function), line: 0, column: 0 }]);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[samples, samples * 10_000_000]);
        }
        Report::new(builder.finish(), &ReportOptions::default(), ReportKind::Top).expect("a report")
    }

    #[test]
    fn noise_is_noise_also_without_a_period() {
        let (base, new) = (sampled(&[("a", 50), ("b", 50)]), sampled(&[("a", 56), ("b", 47)]));
        let found = diff(&base, &new, false);
        assert_eq!(found.unit, "nanoseconds");
        assert!(found.rows.iter().all(|row| !row.is_real()), "{:?}", found.rows);
        let found = diff(&base, &sampled(&[("a", 500), ("b", 50)]), false);
        assert!(found.rows[0].is_real() && found.rows[0].name == "a");
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
            Report::new(builder.finish(), &ReportOptions::default(), ReportKind::Top).expect("a report")
        };
        let found = diff(&unnamed([100, 7]), &unnamed([100, 9]), false);
        let costs: Vec<_> = found.rows.iter().map(|row| (row.base_flat, row.new_flat)).collect();
        assert_eq!(costs, [(107, 109)]);
    }
}
