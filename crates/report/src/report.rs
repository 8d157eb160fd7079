//! Prepares a profile as the options specify.

use std::num::Saturating;
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use flamelet_profile::{
    Error, ErrorKind, Granularity, Profile, Renamed, Result, Sample, StackId, StringId, filter, unit,
};
use flamelet_symbol::owner::Owners;
use serde::Serialize;

use crate::fold;
use crate::mine::Mine;
use crate::names::base_name;
use crate::options::{ReportKind, ReportOptions};
use crate::stacks::{EntryCost, Nodes, base_label_sets, costs, sums};

/// A sum over samples, and the sum that divides it if a mean is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) sum: i64,
    /// 0 if no mean is requested.
    pub(crate) divisor: i64,
}

impl Cost {
    /// Returns the sum, or the mean.
    pub(crate) fn value(self) -> i64 {
        if self.divisor == 0 { self.sum } else { self.sum / self.divisor }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.divisor = self.divisor.saturating_add(other.divisor);
    }
}

/// What the values of an answer count.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// The base of percentages.
    pub total: i64,
}

/// Which part of a profile an answer shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The sum of the shown functions' own cost.
    pub(crate) shown: i64,
    /// How many functions are shown.
    pub(crate) count: usize,
    /// How many functions there were before their count was limited.
    pub(crate) candidates: usize,
    /// How many functions were too small to be shown.
    pub(crate) dropped: usize,
    /// The same for calls, if the answer draws them.
    pub(crate) dropped_edges: Option<usize>,
}

/// A profile prepared as its options specify, from which the modules compute their answers.
pub struct Report {
    pub(crate) profile: Arc<Profile>,
    pub(crate) options: ReportOptions,
    pub(crate) command: ReportKind,
    /// The index of the value in each sample.
    pub(crate) value_index: usize,
    /// The base of percentages.
    pub(crate) total: i64,
    /// Whose code the functions are, if the report shows it.
    pub(crate) owners: Option<Arc<Owners>>,
    /// The units of the numeric labels.
    pub(crate) label_units: std::collections::BTreeMap<StringId, String>,
    /// Warnings for the user, such as filters that matched nothing.
    pub warnings: Vec<String>,
}

impl Report {
    /// Applies the options that change the profile itself.
    pub fn new(mut profile: Profile, options: &ReportOptions, command: ReportKind) -> Result<Self> {
        let options = options.for_command(command);
        if options.divide_by == 0.0 || !options.divide_by.is_finite() {
            return Err(bad_option(format!("divide_by: cannot divide by {}", options.divide_by)));
        }
        let filters = options.filters.compile()?;
        let label_units = filter::number_units(&profile);
        let mut warnings = Vec::new();
        let owners = owners(&profile, &options, command, &mut warnings)?;
        fold::fold(&mut profile, options.folding, owners.as_deref());
        add_tag_frames(&mut profile, &options, &mut warnings);
        let value_index = sample_index(&profile, &options.sample_index)?;
        let divisor = options.mean.then_some(0);
        let mut apply = |profile: &mut Profile| {
            let outcome = filters.apply(profile);
            warnings.extend(outcome.notes);
            let unmatched = outcome.unmatched.into_iter();
            warnings.extend(unmatched.map(|name| format!("{name} expression matched no samples")));
        };
        // Percentages are of everything, unless they are to be of what is left.
        if options.relative_percentages {
            apply(&mut profile);
        }
        let total = total(&profile, value_index, divisor);
        if !options.relative_percentages {
            apply(&mut profile);
        }
        profile.aggregate(options.granularity.unwrap_or_default(), !options.no_inlines, options.show_columns);
        // Output that is a copy of the profile keeps its paths unchanged.
        let is_kept = matches!(command, ReportKind::Raw | ReportKind::Proto);
        if options.granularity != Some(Granularity::Functions) && !is_kept {
            trim_paths(&mut profile, &options.trim_path, &options.source_path);
        }
        let profile = Arc::new(profile);
        Ok(Self { profile, options, command, value_index, total, owners, label_units, warnings })
    }

    /// Takes a profile as it is, to explain it and to sum it up by owner without a copy of it: `sample_type` is a row of
    /// [`Profile::sample_types`], and lists have `rows` at most.
    pub fn unfiltered(profile: Arc<Profile>, sample_type: usize, rows: usize) -> Self {
        let options = ReportOptions { node_count: Some(rows), ..ReportOptions::default() };
        Self {
            total: total(&profile, sample_type, None),
            label_units: filter::number_units(&profile),
            profile,
            options,
            command: ReportKind::Explain,
            value_index: sample_type,
            owners: None,
            warnings: Vec::new(),
        }
    }

    /// Returns the profile after filtering.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the profile after filtering, to be written to a file.
    pub fn into_profile(self) -> Profile {
        Arc::unwrap_or_clone(self.profile)
    }

    /// Returns whose code the functions are, for reports that show it.
    pub fn owners(&self) -> Option<&Arc<Owners>> {
        self.owners.as_ref()
    }

    /// Returns the base of percentages.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Returns the index of the chosen value in each sample.
    pub fn value_index(&self) -> usize {
        self.value_index
    }

    /// Returns the name of what is shown: `cpu`, `inuse_space`, or `mean_…`.
    pub fn value_name(&self) -> String {
        let kind = self.profile.string(self.profile.sample_types()[self.value_index].kind);
        if self.options.mean { format!("mean_{kind}") } else { kind.to_string() }
    }

    /// Returns what the values of an answer count.
    pub fn measure(&self) -> Measure {
        Measure { sample_type: self.value_name(), unit: self.unit().to_string(), total: self.total }
    }

    /// Returns the unit of the values in the profile.
    pub fn unit(&self) -> &str {
        self.profile.string(self.profile.sample_types()[self.value_index].unit)
    }

    pub(crate) fn value(&self, sample: &Sample<'_>) -> i64 {
        sample.values[self.value_index]
    }

    /// Returns the cost of each sample, without samples that cost nothing.
    pub(crate) fn weighed(&self) -> impl Iterator<Item = (Sample<'_>, Cost)> {
        self.weighed_in(0..self.profile.sample_count())
    }

    /// The same for some of the samples.
    pub(crate) fn weighed_in(&self, samples: Range<usize>) -> impl Iterator<Item = (Sample<'_>, Cost)> {
        let cost = |sample: &Sample<'_>| Cost { sum: self.value(sample), divisor: self.divisor(sample) };
        samples
            .map(|row| self.profile.sample(row))
            .map(move |sample| (sample, cost(&sample)))
            .filter(|(_, cost)| *cost != Cost::default())
    }

    /// Returns the stack of each sample with its value, without samples that cost nothing.
    pub(crate) fn values_of_samples(&self) -> impl Iterator<Item = (StackId, Saturating<i64>)> {
        let values = self.profile.samples().map(|sample| (sample.stack, Saturating(self.value(&sample))));
        values.filter(|(_, value)| value.0 != 0)
    }

    pub(crate) fn costs(&self, nodes: &Nodes) -> Vec<EntryCost<Cost>> {
        if !self.options.mean
            && let Some(sums) = sums(&self.profile, &nodes.table, nodes.len(), self.value_index)
        {
            let cost = |sum| Cost { sum, divisor: 0 };
            return sums
                .into_iter()
                .map(|sum| EntryCost { flat: cost(sum.flat), cum: cost(sum.cum) })
                .collect();
        }
        let stacks = self.weighed().map(|(sample, cost)| (sample.stack, cost));
        costs(&self.profile, &nodes.table, nodes.len(), stacks)
    }

    /// Returns the divisor of a value for a mean, or 0 if there is none.
    pub(crate) fn divisor(&self, sample: &Sample<'_>) -> i64 {
        if self.options.mean { sample.values[0] } else { 0 }
    }

    /// Formats `value` for people, in `output_unit`.
    pub(crate) fn format(&self, value: i64, output_unit: &str) -> String {
        unit::label_in(self.scaled(value), self.unit(), output_unit)
    }

    pub(crate) fn scaled(&self, value: i64) -> i64 {
        if self.options.divide_by == 1.0 {
            return value;
        }
        (value as f64 * (1.0 / self.options.divide_by)) as i64
    }

    /// Returns the unit for all values of the report: the requested one, or one in which the smallest value of the
    /// entries (each given by its own and its cumulative value) is still visible.
    pub(crate) fn output_unit(&self, entries: impl Iterator<Item = (i64, i64)>) -> String {
        let mut entries = entries.peekable();
        if self.options.unit != "minimum" || entries.peek().is_none() {
            return self.options.unit.clone();
        }
        let smallest = entries
            .map(|(flat, cum)| if flat == 0 { cum.saturating_abs() } else { flat.saturating_abs() })
            .filter(|&value| value > 0)
            .min()
            .unwrap_or(0);
        let from = self.unit();
        let (smallest, largest) = match smallest {
            0 => (self.scaled(self.total), self.scaled(self.total)),
            _ => (self.scaled(smallest), self.scaled(self.total)),
        };
        let (_, small_unit) = unit::scale(smallest, from, "minimum");
        let (_, large_unit) = unit::scale(largest, from, "minimum");
        let mut chosen = small_unit;
        let is_far = smallest.saturating_mul(100) < largest;
        // KCachegrind reads only whole numbers, so nothing may be scaled to a fraction in its files.
        if small_unit != large_unit && is_far && self.command != ReportKind::Callgrind {
            (_, chosen) = unit::scale(smallest.saturating_mul(100), from, "minimum");
        }
        if chosen.is_empty() { from.to_string() } else { chosen.to_string() }
    }
}

/// Finds out whose code the functions are, before paths are dropped, if the report needs to know.
fn owners(
    profile: &Profile,
    options: &ReportOptions,
    command: ReportKind,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Owners>>> {
    let is_shown = matches!(command, ReportKind::Flame | ReportKind::Dot) || options.folding.runtime;
    if !is_shown {
        return Ok(None);
    }
    let mine = Mine::parse(&options.mine)?;
    let (owners, unmatched) = mine.owners(profile);
    let unmatched = unmatched.into_iter();
    warnings
        .extend(unmatched.map(|text| format!("--mine '{text}' matches no function or file in this profile")));
    Ok(Some(Arc::new(owners)))
}

fn add_tag_frames(profile: &mut Profile, options: &ReportOptions, warnings: &mut Vec<String>) {
    let keys = |text: &'_ str| -> Vec<String> {
        text.split(',').filter(|key| !key.is_empty()).map(str::to_string).collect()
    };
    let (roots, leaves) = (keys(&options.tag_root), keys(&options.tag_leaf));
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let leaves: Vec<&str> = leaves.iter().map(String::as_str).collect();
    let (has_roots, has_leaves) = profile.add_tag_frames(&roots, &leaves, &options.unit);
    for (name, keys, has_matched) in [("TagRoot", &roots, has_roots), ("TagLeaf", &leaves, has_leaves)] {
        if !keys.is_empty() && !has_matched {
            warnings.push(format!("{name} expression matched no samples"));
        }
    }
}

/// Returns the index of a sample type given by name or number; empty text means the default.
pub fn sample_index(profile: &Profile, wanted: &str) -> Result<usize> {
    let types = profile.sample_types();
    if types.is_empty() {
        return Err(bad_option("the profile has no samples".into()));
    }
    if wanted.is_empty() {
        return Ok(profile.default_sample_index());
    }
    let kind = |at: usize| profile.string(types[at].kind);
    if let Some(number) = wanted.parse::<usize>().ok().filter(|&number| number < types.len()) {
        return Ok(number);
    }
    // Old heap profiles use names without `inuse_`.
    let short = wanted.strip_prefix("inuse_").unwrap_or(wanted);
    let found = (0..types.len()).find(|&at| kind(at) == wanted || kind(at) == short);
    found.ok_or_else(|| {
        let kinds: Vec<&str> = (0..types.len()).map(kind).collect();
        bad_option(format!("sample_index '{wanted}' must be one of: {}", kinds.join(", ")))
    })
}

/// Returns the sum of all absolute values; of the base alone if the profile is a diff.
/// Adds up values of a file, which may be as large as they like.
pub(crate) fn sum(values: impl Iterator<Item = i64>) -> i64 {
    values.fold(0, i64::saturating_add)
}

fn total(profile: &Profile, value_index: usize, divisor: Option<usize>) -> i64 {
    let is_base = base_label_sets(profile);
    let (mut all, mut base) = ((0i64, 0i64), (0i64, 0i64));
    for sample in profile.samples() {
        let value = sample.values[value_index].saturating_abs();
        let count = divisor.map_or(0, |at| sample.values[at]);
        all = (all.0.saturating_add(value), all.1.saturating_add(count));
        if is_base[sample.labels.index()] {
            base = (base.0.saturating_add(value), base.1.saturating_add(count));
        }
    }
    let (sum, count) = if base.0 > 0 { base } else { all };
    if count == 0 { sum } else { sum / count }
}

fn trim_paths(profile: &mut Profile, trim_path: &str, source_path: &str) {
    profile.rename_functions(|_, filename| {
        let trimmed = clean_path(trim_source_path(filename, trim_path, source_path));
        Renamed { name: None, filename: (trimmed != filename).then_some(trimmed) }
    });
}

/// Removes the prefix that another machine's build folder left in a path.
fn trim_source_path<'a>(path: &'a str, trim_path: &str, source_path: &str) -> &'a str {
    if trim_path.is_empty() {
        for folder in source_path.split(':').filter(|folder| !folder.is_empty()) {
            let name = format!("/{}/", base_name(folder));
            if let Some(at) = path.find(&name) {
                return &path[at + name.len()..];
            }
        }
    }
    let asked = trim_path.split(':').filter(|prefix| !prefix.is_empty());
    for prefix in asked.chain(["/proc/self/cwd/./", "/proc/self/cwd/"]) {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'));
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix('/')) {
            return rest;
        }
    }
    path
}

/// Returns the path without `.`, `..` and doubled slashes.
fn clean_path(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".into(),
        (false, false) => joined,
    }
}

fn bad_option(message: String) -> Error {
    Error::new(ErrorKind::Incompatible, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_any_values_are_reported() {
        let mut builder = flamelet_profile::ProfileBuilder::new(&[("samples", "count")]);
        for (name, kind) in [("a", "one"), ("b", "two")] {
            let frame = builder.named_frame(name);
            let stack = builder.stack(&[frame]);
            let label = builder.text_label("kind", kind);
            let labels = builder.labels(&[label]);
            builder.sample(stack, labels, &[i64::MAX]);
        }
        let profile = builder.finish();
        let report = |kind| Report::new(profile.clone(), &ReportOptions::default(), kind).expect("a report");
        assert_eq!(crate::top::top(&report(ReportKind::Top)).shown, i64::MAX);
        assert_eq!(crate::graph::graph(&report(ReportKind::Dot)).nodes.len(), 2);
        assert_eq!(crate::labels::tags(&report(ReportKind::Tags)).keys[0].total, i64::MAX);
    }

    #[test]
    fn paths_lose_their_build_folder() {
        assert_eq!(trim_source_path("/build/app/src/a.rs", "/build/app", ""), "src/a.rs");
        assert_eq!(trim_source_path("/build/app/src/a.rs", "", "/home/me/app"), "src/a.rs");
        assert_eq!(trim_source_path("/proc/self/cwd/a.c", "", ""), "a.c");
        assert_eq!(trim_source_path("/other/a.c", "/build", ""), "/other/a.c");
    }

    #[test]
    fn paths_are_cleaned() {
        assert_eq!(clean_path("/a/./b/../c//d"), "/a/c/d");
        assert_eq!(clean_path("../x"), "../x");
        assert_eq!(clean_path("./"), ".");
        assert_eq!(clean_path(""), "");
    }
}
