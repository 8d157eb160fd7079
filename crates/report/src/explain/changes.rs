//! What changed between two profiles beyond noise, in sentences.

use std::collections::hash_map::Entry;

use flamelet_profile::unit;
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::about::{Subject, about};
use crate::by::{Group, GroupPart, Grouping, add, all_groups};
use crate::diff::Diff;
use crate::report::Report;

/// The most changes of each kind that are reported.
const MOST: usize = 5;
/// Changes below this share of the larger total are left out, however certain they are.
const LEAST: f64 = 0.01;

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Changes {
    /// What is compared: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// The total of the base.
    pub base_total: i64,
    /// The total of the new profile.
    pub new_total: i64,
    /// Whether the totals differ by more than noise.
    pub is_total_real: bool,
    /// The change of the total, in a sentence.
    pub summary: String,
    /// Your functions that cost more, largest change first.
    pub more: Vec<Change>,
    /// Your functions that cost less, largest change first.
    pub less: Vec<Change>,
}

/// A function of yours whose cost changed by more than noise. The cost of others' code is charged to the function of
/// yours that called it.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The function.
    pub function: String,
    /// Its cost in the base.
    pub base: i64,
    /// Its cost in the new profile.
    pub new: i64,
    /// What makes up most of the change: `hashing`, `own code`, …
    pub parts: Vec<PartChange>,
    /// All of this in a sentence.
    pub sentence: String,
}

/// A part of a change.
#[derive(Clone, Debug, Serialize)]
pub struct PartChange {
    /// `own code`, `allocating`, `hashing`, …, or the name of the crate.
    pub name: String,
    /// By how much it changed.
    pub change: i64,
}

/// The reports on the runs of one side, and the owners of their functions.
type ReportsOfSide<'a> = (&'a [Report], &'a [Owners]);

/// Says what changed from `base` to `new`. `diff` decides what is more than noise; the reports, on the same runs, say what
/// the changes consist of.
pub fn changes(diff: &Diff, base: ReportsOfSide<'_>, new: ReportsOfSide<'_>) -> Changes {
    let (before, after) = (mean_groups(base), mean_groups(new));
    let words = KindWords::of(diff, new.0.first());
    let least = LEAST * diff.base_total.unsigned_abs().max(diff.new_total.unsigned_abs()) as f64;
    let rows = diff.rows.iter().filter(|row| row.owner == "yours" && row.is_real());
    let found = rows.filter_map(|row| {
        let change = Change::of(&row.name, before.get(&row.name), after.get(&row.name), &words);
        let (own, all) = ((change.new - change.base).abs(), row.cum_change().abs());
        // A caller whose callees of yours changed did not change itself.
        let is_its_own = row.flat_is_real || own as f64 >= 0.3 * all as f64;
        (own as f64 >= least && is_its_own).then_some(change)
    });
    let (more, less): (Vec<Change>, Vec<Change>) = found.partition(|change| change.new > change.base);
    Changes {
        sample_type: diff.sample_type.clone(),
        unit: diff.unit.clone(),
        base_total: diff.base_total,
        new_total: diff.new_total,
        is_total_real: diff.total_is_real,
        summary: words.summary(diff, more.len() + less.len()),
        more: largest(more),
        less: largest(less),
    }
}

/// Returns what is charged to each function of yours, as the mean of the runs.
fn mean_groups((reports, owners): ReportsOfSide<'_>) -> FxHashMap<String, Group> {
    let mut groups: FxHashMap<String, Group> = FxHashMap::default();
    for (report, owners) in reports.iter().zip(owners) {
        for group in all_groups(report, Grouping::Yours, owners).rows {
            match groups.entry(group.name.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(group)),
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    add(&mut known.flat, group.flat);
                    known.parts.extend(group.parts);
                }
            }
        }
    }
    let runs = i64::try_from(reports.len()).unwrap_or(1).max(1);
    for group in groups.values_mut() {
        group.flat /= runs;
        group.parts.iter_mut().for_each(|part| part.value /= runs);
    }
    groups
}

fn largest(mut changes: Vec<Change>) -> Vec<Change> {
    changes
        .sort_by_key(|change| (std::cmp::Reverse((change.new - change.base).abs()), change.function.clone()));
    changes.truncate(MOST);
    changes
}

impl Change {
    fn of(name: &str, before: Option<&Group>, after: Option<&Group>, words: &KindWords) -> Self {
        let cost = |group: Option<&Group>| group.map_or(0, |group| group.flat);
        let (base, new) = (cost(before), cost(after));
        let parts = part_changes(before, after);
        let sentence = words.change(name, base, new, &parts);
        Self { function: name.to_owned(), base, new, parts, sentence }
    }
}

/// Returns the parts that changed in the direction of the whole, until they explain four fifths of it; at most three.
fn part_changes(before: Option<&Group>, after: Option<&Group>) -> Vec<PartChange> {
    let mut sums: FxHashMap<&str, i64> = FxHashMap::default();
    let parts = |group: Option<&'_ Group>| -> Vec<GroupPart> {
        group.map_or(Vec::new(), |group| group.parts.clone())
    };
    let (before, after) = (parts(before), parts(after));
    after.iter().for_each(|part| *sums.entry(&part.name).or_default() += part.value);
    before.iter().for_each(|part| *sums.entry(&part.name).or_default() -= part.value);
    let whole: i64 = sums.values().sum();
    let mut changes: Vec<PartChange> = sums
        .into_iter()
        .filter(|(_, change)| change.signum() == whole.signum() && *change != 0)
        .map(|(name, change)| PartChange { name: name.to_owned(), change })
        .collect();
    changes.sort_by(|a, b| b.change.abs().cmp(&a.change.abs()).then_with(|| a.name.cmp(&b.name)));
    let mut explained = 0.0;
    let enough = 0.8 * whole.abs() as f64;
    let kept = changes.iter().take(3).take_while(|part| {
        let is_needed = explained < enough;
        explained += part.change.abs() as f64;
        is_needed
    });
    let kept = kept.count();
    changes.truncate(kept);
    changes
}

/// The words for one kind of profile.
struct KindWords {
    unit: String,
    /// A function costs more: `got slower`.
    more: &'static str,
    less: &'static str,
}

impl KindWords {
    fn of(diff: &Diff, report: Option<&Report>) -> Self {
        let name = &diff.sample_type;
        let (more, less) = match report.map_or(Subject::Any, about) {
            Subject::Time | Subject::Locks | Subject::Awaits | Subject::Polls
                if diff.unit == "count" && name != "samples" =>
            {
                ("counts more", "counts less")
            }
            Subject::Locks | Subject::Awaits | Subject::Polls => ("waits longer", "waits less"),
            Subject::Time | Subject::Any => ("got slower", "got faster"),
            Subject::Memory if name.starts_with("inuse") || name.starts_with("peak") => {
                ("holds more", "holds less")
            }
            Subject::Memory => ("allocates more", "allocates less"),
        };
        Self { unit: diff.unit.clone(), more, less }
    }

    fn value(&self, value: i64) -> String {
        unit::label(value, &self.unit)
    }

    fn signed(&self, value: i64) -> String {
        if value > 0 { format!("+{}", self.value(value)) } else { self.value(value) }
    }

    fn change(&self, name: &str, base: i64, new: i64, parts: &[PartChange]) -> String {
        let what = match (base, new) {
            (0, _) => format!("{name} is new: {}", self.value(new)),
            (_, 0) => format!("{name} is gone: it cost {}", self.value(base)),
            _ => {
                let verb = if new > base { self.more } else { self.less };
                let percent = percent(base, new);
                format!("{name} {verb}: {} → {} ({percent})", self.value(base), self.value(new))
            }
        };
        let parts: Vec<String> =
            parts.iter().map(|part| format!("{} {}", part.name, self.signed(part.change))).collect();
        match parts.as_slice() {
            [] => format!("{what}."),
            parts => format!("{what}, mostly {}.", parts.join(" and ")),
        }
    }

    fn summary(&self, diff: &Diff, changed: usize) -> String {
        let (base, new) = (diff.base_total, diff.new_total);
        let totals = format!("{} → {}", self.value(base), self.value(new));
        let total = match (diff.total_is_real, diff.knows_runs) {
            (true, _) => format!("The total changed by more than noise: {totals} ({}).", percent(base, new)),
            (false, true) => format!("The total did not change by more than noise: {totals}."),
            // Another run may do more work.
            (false, false) => format!(
                "Total: {totals} ({}). One run on each side does not show how much runs differ.",
                percent(base, new)
            ),
        };
        match changed {
            0 => format!("{total} None of your functions changed by more than noise."),
            1 => format!("{total} One of your functions changed by more than noise."),
            _ => format!("{total} {changed} of your functions changed by more than noise."),
        }
    }
}

fn percent(base: i64, new: i64) -> String {
    match base {
        0 => "new".to_owned(),
        _ => format!("{:+.0} %", (new as f64 - base as f64) / base.unsigned_abs() as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Granularity, Profile, ProfileBuilder};

    use super::*;
    use crate::diff::{Comparison, Run, diff};
    use crate::options::{ReportKind, ReportOptions};

    /// A profile of (name, file) stacks, leaf first, with their numbers of samples of 10 ms.
    fn profile(stacks: &[(&[(&str, &str)], i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for (stack, samples) in stacks {
            let frames: Vec<_> = stack
                .iter()
                .map(|(name, file)| {
                    let function = builder.named_function(name, file);
                    builder.frame(function, 1)
                })
                .collect();
            let stack = builder.stack(&frames);
            builder.sample(stack, Default::default(), &[*samples, samples * 10_000_000]);
        }
        builder.finish()
    }

    fn compared(base: &[(&[(&str, &str)], i64)], new: &[(&[(&str, &str)], i64)]) -> Changes {
        let report = |stacks, kind| {
            let granularity = (kind == ReportKind::Explain).then_some(Granularity::Lines);
            let options = ReportOptions { granularity, ..ReportOptions::default() };
            Report::new(profile(stacks), &options, kind).expect("a report")
        };
        let owners = |stacks| Owners::of(&profile(stacks), |_, _| false);
        let run = |stacks| {
            Run::new(profile(stacks), owners(stacks), |_| Ok(report(stacks, ReportKind::Diff)))
                .expect("a run")
        };
        let answer = diff(&[run(base)], &[run(new)], &Comparison::default());
        let side = |stacks| {
            let report = report(stacks, ReportKind::Explain);
            let owners = Owners::of(&report.profile, |_, _| false);
            ([report], [owners])
        };
        let (base, new) = (side(base), side(new));
        changes(&answer, (&base.0, &base.1), (&new.0, &new.1))
    }

    const TOTAL: (&str, &str) = ("shop::total", "/home/me/shop/src/cart.rs");
    const SAVE: (&str, &str) = ("shop::save", "/home/me/shop/src/save.rs");
    const HASH: (&str, &str) = ("core::hash::sip::Hasher::write", "");

    #[test]
    fn what_got_slower_is_said_with_its_reason() {
        let found = compared(
            &[(&[TOTAL], 400), (&[HASH, TOTAL], 100), (&[SAVE], 500)],
            &[(&[TOTAL], 405), (&[HASH, TOTAL], 600), (&[SAVE], 490)],
        );
        assert_eq!(found.less.len(), 0, "{:?}", found.less);
        let [change] = &found.more[..] else { panic!("{:?}", found.more) };
        assert_eq!(change.sentence, "shop::total got slower: 5s → 10.05s (+101 %), mostly hashing +5s.");
        // One run a side says little about the total: another run may do more work.
        assert!(!found.is_total_real);
        assert!(found.summary.contains("One of your functions"), "{}", found.summary);
    }

    #[test]
    fn noise_is_not_mentioned_and_new_and_gone_are() {
        let found = compared(&[(&[TOTAL], 500), (&[SAVE], 500)], &[(&[TOTAL], 520), (&[SAVE], 485)]);
        assert!(found.more.is_empty() && found.less.is_empty(), "{found:?}");
        assert!(found.summary.contains("None of your functions"), "{}", found.summary);
        let found = compared(&[(&[TOTAL], 500), (&[SAVE], 500)], &[(&[TOTAL], 500)]);
        assert_eq!(found.less[0].sentence, "shop::save is gone: it cost 5s, mostly own code -5s.");
        let found = compared(&[(&[TOTAL], 500)], &[(&[TOTAL], 500), (&[SAVE], 100)]);
        assert_eq!(found.more[0].sentence, "shop::save is new: 1s, mostly own code +1s.");
    }
}
