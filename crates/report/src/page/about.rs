//! What a profile says about itself, for the page.

use std::collections::BTreeSet;

use flamelet_profile::{FunctionId, LocationId, Profile, StackId, ThreadId, ValueType};
use rustc_hash::FxHashSet;

use crate::info::{is_unnamed, label_keys, unnamed_locations};
use crate::observations::per_observation;
use crate::stacks::{DIFF_BASE_LABEL, ValuePart, base_label_sets};

/// One kind of value.
#[derive(Clone, Debug)]
struct AboutType {
    kind: String,
    unit: String,
    /// The sum over all samples; in a diff, over the new side.
    total: i64,
    /// The sum over the base of a diff.
    base_total: i64,
    /// What one observation stands for, to judge which changes are noise.
    per_sample: f64,
}
serialize!(AboutType: kind, unit, total, base_total, per_sample);

/// How good the capture is; see [`flamelet_profile::Quality`].
#[derive(Clone, Debug)]
struct AboutQuality {
    engine: String,
    asked_hertz: f64,
    achieved_hertz: f64,
    samples: u64,
    lost: u64,
    truncated: u64,
    unresolved: u64,
    own_cpu_nanos: u64,
}
serialize!(
    AboutQuality: engine, asked_hertz, achieved_hertz, samples, lost, truncated, unresolved, own_cpu_nanos
);

/// A file mapped into the profiled process.
#[derive(Clone, Debug)]
struct AboutMapping {
    file: String,
    build_id: String,
    symbols: bool,
}
serialize!(AboutMapping: file, build_id, symbols);

/// The response to the page's first request, and the start of an exported page.
#[derive(Clone, Debug)]
pub struct About {
    title: String,
    types: Vec<AboutType>,
    default_type: usize,
    is_diff: bool,
    time_nanos: i64,
    duration_nanos: i64,
    period: i64,
    period_kind: String,
    period_unit: String,
    samples: usize,
    stacks: usize,
    functions: usize,
    locations: usize,
    /// Locations without a function name.
    unnamed_locations: usize,
    comments: Vec<String>,
    doc_url: String,
    mappings: Vec<AboutMapping>,
    quality: Option<AboutQuality>,
    threads: usize,
    has_timeline: bool,
    label_keys: Vec<String>,
    /// Whether it counts objects and bytes, as heap profiles do.
    is_heap: bool,
    /// Whether the figures are those of a time range; the quality is that of the whole recording.
    is_part: bool,
}
serialize!(
    About: title, types, default_type, is_diff, time_nanos, duration_nanos, period, period_kind,
    period_unit, samples, stacks, functions, locations, unnamed_locations, comments, doc_url, mappings,
    quality, threads, has_timeline, label_keys, is_heap, is_part
);

impl About {
    /// Collects the facts about `profile`, shown under `title`.
    pub fn new(profile: &Profile, title: &str) -> Self {
        let header = &profile.header;
        let base_sets = base_label_sets(profile);
        let period = header.period_type.unwrap_or_default();
        Self {
            title: title.to_owned(),
            types: types(profile, &base_sets),
            is_diff: base_sets.contains(&true),
            default_type: profile.default_sample_index(),
            time_nanos: header.time_nanos,
            duration_nanos: header.duration_nanos,
            period: header.period,
            period_kind: profile.string(period.kind).to_owned(),
            period_unit: profile.string(period.unit).to_owned(),
            samples: profile.sample_count(),
            stacks: profile.stack_count(),
            functions: profile.functions().len(),
            locations: profile.locations().len(),
            unnamed_locations: unnamed_locations(profile),
            comments: profile.comments().map(str::to_owned).collect(),
            doc_url: profile.string(header.doc_url).to_owned(),
            mappings: mappings(profile),
            quality: quality(profile),
            threads: profile.timeline.as_ref().map_or(0, |timeline| timeline.threads.len()),
            has_timeline: profile.timeline.as_ref().is_some_and(|timeline| !timeline.events.is_empty()),
            label_keys: label_keys(profile).into_iter().filter(|key| key != DIFF_BASE_LABEL).collect(),
            is_heap: counts_memory(profile),
            is_part: false,
        }
    }
}

impl About {
    /// Replaces the figures that a time range changes by those of `part`, which is limited to it.
    #[must_use]
    pub fn in_range(self, part: &Profile) -> Self {
        let used = Used::by(part);
        let unnamed = used.locations.iter().filter(|&&location| is_unnamed(part, location)).count();
        Self {
            types: types(part, &base_label_sets(part)),
            samples: part.sample_count(),
            duration_nanos: part.header.duration_nanos,
            stacks: used.stacks.len(),
            functions: used.functions.len(),
            locations: used.locations.len(),
            unnamed_locations: unnamed,
            threads: used.threads.len(),
            label_keys: used.label_keys.into_iter().map(str::to_owned).collect(),
            is_part: true,
            ..self
        }
    }
}

/// What the samples of a profile refer to: a part of a recording keeps the tables of the whole.
#[derive(Default)]
struct Used<'a> {
    stacks: FxHashSet<StackId>,
    locations: FxHashSet<LocationId>,
    functions: FxHashSet<FunctionId>,
    threads: FxHashSet<ThreadId>,
    label_keys: BTreeSet<&'a str>,
}

impl<'a> Used<'a> {
    fn by(profile: &'a Profile) -> Self {
        let mut used = Self::default();
        let mut sets = FxHashSet::default();
        for sample in profile.samples() {
            if used.stacks.insert(sample.stack) {
                used.locations.extend(profile.stack(sample.stack));
            }
            sets.insert(sample.labels);
        }
        for &location in &used.locations {
            used.functions.extend(profile.lines(location).iter().filter_map(|line| line.function));
        }
        let keys = sets.iter().flat_map(|&set| profile.labels(set)).map(|label| profile.string(label.key));
        used.label_keys = keys.filter(|key| *key != DIFF_BASE_LABEL).collect();
        let events = profile.timeline.iter().flat_map(|timeline| &timeline.events);
        used.threads = events.map(|event| event.thread).collect();
        used
    }
}

/// Returns whether a sample type counts bytes that were allocated, freed or kept.
pub(super) fn counts_memory(profile: &Profile) -> bool {
    let is_memory = |kind: &str| ["_space", "_bytes", "space", "bytes"].iter().any(|end| kind.ends_with(end));
    profile.sample_types().iter().any(|value| {
        profile.string(value.unit).eq_ignore_ascii_case("bytes") && is_memory(profile.string(value.kind))
    })
}

fn types(profile: &Profile, base_sets: &[bool]) -> Vec<AboutType> {
    let mut totals = vec![[0i64; 2]; profile.sample_types().len()];
    for sample in profile.samples() {
        let is_base = base_sets[sample.labels.index()];
        for (sums, &value) in totals.iter_mut().zip(sample.values) {
            let sum = &mut sums[usize::from(is_base)];
            *sum = sum.saturating_add(ValuePart::of(value, is_base).value);
        }
    }
    let about = |(at, value): (usize, &ValueType)| AboutType {
        kind: profile.string(value.kind).to_owned(),
        unit: profile.string(value.unit).to_owned(),
        total: totals[at][0],
        base_total: totals[at][1],
        per_sample: per_observation(profile, at),
    };
    profile.sample_types().iter().enumerate().map(about).collect()
}

fn mappings(profile: &Profile) -> Vec<AboutMapping> {
    let about = |mapping: &flamelet_profile::Mapping| AboutMapping {
        file: profile.string(mapping.filename).to_owned(),
        build_id: profile.string(mapping.build_id).to_owned(),
        symbols: mapping.symbols.functions,
    };
    profile.mappings().iter().take(200).map(about).collect()
}

fn quality(profile: &Profile) -> Option<AboutQuality> {
    let quality = profile.quality?;
    Some(AboutQuality {
        engine: profile.string(quality.engine).to_owned(),
        asked_hertz: quality.asked_millihertz as f64 / 1000.0,
        achieved_hertz: quality.achieved_millihertz as f64 / 1000.0,
        samples: quality.samples,
        lost: quality.lost,
        truncated: quality.truncated,
        unresolved: quality.unresolved,
        own_cpu_nanos: quality.own_cpu_nanos,
    })
}
