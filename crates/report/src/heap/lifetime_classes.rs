//! The classes of the label `lifetime`, which the heap profiler puts on freed memory.

use flamelet_profile::{LabelSetId, Profile};

/// The classes, shortest first, as the heap profiler names them.
pub(crate) const LIFETIMES: [&str; 10] = [
    "temporary",
    "<1ms",
    "1ms-10ms",
    "10ms-100ms",
    "100ms-1s",
    "1s-10s",
    "10s-1m",
    "1m-10m",
    "10m-1h",
    ">=1h",
];

/// The row in [`LIFETIMES`] of memory freed before its thread allocated anything else.
pub(crate) const TEMPORARY: usize = 0;

/// Returns for each label set the row of [`LIFETIMES`] that it names.
pub(crate) fn lifetimes_of_sets(profile: &Profile) -> Vec<Option<usize>> {
    let Some(key) = profile.strings().find("lifetime") else { return vec![None; profile.label_set_count()] };
    let class = |set: usize| {
        let label = profile.labels(LabelSetId::from_index(set)).iter().find(|label| label.key == key)?;
        LIFETIMES.iter().position(|&known| known == profile.string(label.text))
    };
    (0..profile.label_set_count()).map(class).collect()
}
