//! `info`: what a profile is, and how good it is.

use std::collections::BTreeSet;

use flamelet_profile::{LabelSetId, Line, Profile, unit};
use serde::Serialize;

/// One kind of value of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct SampleTypeInfo {
    /// What is counted.
    pub kind: String,
    /// The unit.
    pub unit: String,
    /// The sum over all samples.
    pub total: i64,
    /// Whether it is shown by default.
    pub is_default: bool,
}

/// A binary of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct MappingInfo {
    /// The file.
    pub file: String,
    /// The build id.
    pub build_id: String,
    /// The first address it was mapped at.
    pub start: u64,
    /// One past the last address.
    pub limit: u64,
}

/// How much a profile can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No faults found.
    Good,
    /// Usable, with the listed faults.
    Fair,
    /// Misleading: read the faults first.
    Poor,
}

/// The answer of `info`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// The kinds of values.
    pub sample_types: Vec<SampleTypeInfo>,
    /// When the capture started, in nanoseconds since 1970; 0 when unknown.
    pub time_nanos: i64,
    /// The length of the capture; 0 when unknown.
    pub duration_nanos: i64,
    /// The sampling period.
    pub period: i64,
    /// What the period counts, as `kind/unit`.
    pub period_type: Option<String>,
    /// How many samples (rows) there are.
    pub samples: usize,
    /// How many locations there are.
    pub locations: usize,
    /// How many of them have no function name.
    pub unnamed_locations: usize,
    /// How many functions there are.
    pub functions: usize,
    /// The depth of the deepest stack, in frames, including inlined ones.
    pub deepest_stack: usize,
    /// The binaries.
    pub mappings: Vec<MappingInfo>,
    /// The labels.
    pub labels: Vec<String>,
    /// How many threads the timeline names; `None` without a timeline.
    pub threads: Option<usize>,
    /// The comments.
    pub comments: Vec<String>,
    /// How good it is.
    pub verdict: Verdict,
    /// Why it is not better.
    pub faults: Vec<String>,
}

/// Computes `info`.
pub fn info(profile: &Profile) -> Info {
    let text = |id| profile.string(id).to_string();
    let default = profile.default_sample_index();
    let sample_types = profile
        .sample_types()
        .iter()
        .enumerate()
        .map(|(at, value_type)| SampleTypeInfo {
            kind: text(value_type.kind),
            unit: text(value_type.unit),
            total: profile.total(at),
            is_default: at == default,
        })
        .collect();
    let frames = |stack: &[flamelet_profile::LocationId]| {
        stack.iter().map(|&location| profile.lines(location).len().max(1)).sum()
    };
    let comments = comment_lines(profile);
    let mut info = Info {
        sample_types,
        time_nanos: profile.header.time_nanos,
        duration_nanos: profile.header.duration_nanos,
        period: profile.header.period,
        period_type: profile.header.period_type.map(|t| format!("{}/{}", text(t.kind), text(t.unit))),
        samples: profile.sample_count(),
        locations: profile.locations().len(),
        unnamed_locations: unnamed_locations(profile),
        functions: profile.functions().len(),
        deepest_stack: profile.samples().map(|s| frames(profile.stack(s.stack))).max().unwrap_or(0),
        mappings: profile
            .mappings()
            .iter()
            .map(|mapping| MappingInfo {
                file: text(mapping.filename),
                build_id: text(mapping.build_id),
                start: mapping.start,
                limit: mapping.limit,
            })
            .collect(),
        labels: label_keys(profile),
        threads: profile.timeline.as_ref().map(|timeline| timeline.threads.len()),
        comments,
        verdict: Verdict::Good,
        faults: Vec::new(),
    };
    judge(profile, &mut info);
    info
}

/// Returns how many locations have no function name.
pub(crate) fn unnamed_locations(profile: &Profile) -> usize {
    let is_unnamed = |line: &Line| line.function.is_none_or(|id| profile.function(id).name.is_empty());
    profile.locations().iter().filter(|location| profile.lines_of(location).iter().all(is_unnamed)).count()
}

/// Returns the keys of all labels, sorted.
pub(crate) fn label_keys(profile: &Profile) -> Vec<String> {
    let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
    let keys: BTreeSet<&str> =
        sets.flat_map(|set| profile.labels(set)).map(|label| profile.string(label.key)).collect();
    keys.into_iter().map(str::to_owned).collect()
}

/// Returns what one sample stands for, in the unit of the sample type at `value_index`: its period, or the mean if
/// only the number of samples is known, as in files from perf. `total` gives the sums of the sample types.
pub(crate) fn per_sample(profile: &Profile, value_index: usize, total: impl Fn(usize) -> i64) -> f64 {
    let types = profile.sample_types();
    let Some(period_type) = profile.header.period_type.filter(|_| profile.header.period > 0) else {
        let samples = types.iter().position(|value| profile.string(value.kind) == "samples");
        let counts = samples.map(|samples| (total(samples), total(value_index)));
        let counts = counts.filter(|&(count, value)| count > 0 && value > count);
        return counts.map_or(1.0, |(count, value)| value as f64 / count as f64);
    };
    let (period_unit, unit) = (profile.string(period_type.unit), profile.string(types[value_index].unit));
    let is_period = unit::are_compatible(period_unit, unit) && !unit.eq_ignore_ascii_case("count");
    if is_period { profile.header.period as f64 * unit::ratio(period_unit, unit) } else { 1.0 }
}

/// Returns the comments of a profile, including the lines about its quality, as in the file.
pub(crate) fn comment_lines(profile: &Profile) -> Vec<String> {
    let quality = profile.quality.iter();
    let quality = quality.flat_map(|quality| quality.comment_lines(profile.string(quality.engine)));
    profile.comments().map(str::to_string).chain(quality).collect()
}

/// Shares above which a fault is mentioned, and above which the profile is misleading.
const FAIR: f64 = 0.02;
const POOR: f64 = 0.20;

fn judge(profile: &Profile, info: &mut Info) {
    let mut fault = |share: f64, text: String| {
        if share > FAIR {
            let verdict = if share > POOR { Verdict::Poor } else { Verdict::Fair };
            if info.verdict != Verdict::Poor {
                info.verdict = verdict;
            }
            info.faults.push(text);
        }
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if profile.sample_count() == 0 {
        fault(1.0, "it has no samples: was the program idle, or the capture too short?".into());
    }
    let unnamed = unnamed_share(profile);
    fault(
        unnamed,
        format!(
            "{} of the leaf frames have no name: add names with `flamelet symbolize --binary FILE`",
            percent(unnamed)
        ),
    );
    let Some(quality) = profile.quality else { return };
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let lost = share(quality.lost, quality.samples + quality.lost);
    fault(lost, format!("{} of the samples were lost: lower the rate", percent(lost)));
    let cut = share(quality.truncated, quality.samples);
    fault(cut, format!("{} of the stacks do not reach the start of their thread", percent(cut)));
    let achieved = share(quality.achieved_millihertz, quality.asked_millihertz);
    if quality.asked_millihertz > 0 {
        fault(1.0 - achieved, format!("only {} of the requested rate was reached", percent(achieved)));
    }
}

/// Returns the share of samples, by their default value, whose leaf has no name.
fn unnamed_share(profile: &Profile) -> f64 {
    let at = profile.default_sample_index();
    let (mut unnamed, mut all) = (0f64, 0f64);
    for sample in profile.samples() {
        let value = sample.values.get(at).map_or(0.0, |&value| value.unsigned_abs() as f64);
        all += value;
        let Some(&leaf) = profile.stack(sample.stack).first() else { continue };
        let function = profile.lines(leaf).first().and_then(|line| line.function);
        if function.is_none_or(|function| profile.function(function).name.is_empty()) {
            unnamed += value;
        }
    }
    if all == 0.0 { 0.0 } else { unnamed / all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

    #[test]
    fn without_a_period_the_mean_says_what_a_sample_stands_for() {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let stack = builder.stack(&[]);
        builder.sample(stack, Default::default(), &[4, 40_000_000]);
        let profile = builder.finish();
        assert_eq!(per_sample(&profile, 1, |at| profile.total(at)), 1e7);
        assert_eq!(per_sample(&profile, 0, |at| profile.total(at)), 1.0);
    }
}
