//! `info`: what a profile is, and how good it is.

use std::collections::BTreeSet;

use flamelet_profile::{LabelSetId, Line, LocationId, Profile};

use crate::observations::effective_observations;
pub use crate::verdict::Verdict;
use crate::verdict::judge;

/// One kind of value of a profile.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "text", derive(serde::Serialize))]
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
#[derive(Clone, Debug)]
#[cfg_attr(feature = "text", derive(serde::Serialize))]
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

/// The answer of `info`. Its JSON form is stable.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "text", derive(serde::Serialize))]
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
    /// The effective number of observations behind the default value; `None` if it was not sampled.
    pub observations: Option<f64>,
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
    /// Why it is not better, what that does to the answer, and what to do; the most important one first.
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
    let (verdict, faults) = judge(profile);
    Info {
        sample_types,
        time_nanos: profile.header.time_nanos,
        duration_nanos: profile.header.duration_nanos,
        period: profile.header.period,
        period_type: profile.header.period_type.map(|t| format!("{}/{}", text(t.kind), text(t.unit))),
        samples: profile.sample_count(),
        observations: effective_observations(profile, default),
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
        verdict,
        faults,
    }
}

/// Returns how many locations have no function name.
pub(crate) fn unnamed_locations(profile: &Profile) -> usize {
    let locations = (0..profile.locations().len()).map(LocationId::from_index);
    locations.filter(|&location| is_unnamed(profile, location)).count()
}

/// Returns whether a location has no function name.
pub(crate) fn is_unnamed(profile: &Profile, location: LocationId) -> bool {
    let is_unnamed = |line: &Line| line.function.is_none_or(|id| profile.function(id).name.is_empty());
    profile.lines(location).iter().all(is_unnamed)
}

/// Returns the keys of all labels, sorted.
pub(crate) fn label_keys(profile: &Profile) -> Vec<String> {
    let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
    let keys: BTreeSet<&str> =
        sets.flat_map(|set| profile.labels(set)).map(|label| profile.string(label.key)).collect();
    keys.into_iter().map(str::to_owned).collect()
}

/// Returns the comments of a profile, including the lines about its quality, as in the file.
pub(crate) fn comment_lines(profile: &Profile) -> Vec<String> {
    let quality = profile.quality.iter();
    let quality = quality.flat_map(|quality| quality.comment_lines(profile.string(quality.engine)));
    profile.comments().map(str::to_string).chain(quality).collect()
}
