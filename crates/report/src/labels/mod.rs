//! The cost of each label value.

#[cfg(feature = "text")]
mod tags;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use flamelet_profile::{Label, LabelSetId, Profile};

#[cfg(feature = "text")]
pub use tags::{TagKey, TagValue, Tags, tags};

pub(crate) struct LabelCost<N, W> {
    /// The cost of the samples that carry it.
    pub(crate) total: W,
    /// The cost of each of its values.
    pub(crate) values: BTreeMap<N, W>,
}

/// Returns the cost of each label set; `None` if no sample has it.
pub(crate) fn costs_of_sets<W: Copy + Default + AddAssign>(
    profile: &Profile,
    samples: impl Iterator<Item = (LabelSetId, W)>,
) -> Vec<Option<W>> {
    let mut sums = vec![None; profile.label_set_count()];
    for (set, weight) in samples {
        *sums[set.index()].get_or_insert_with(W::default) += weight;
    }
    sums
}

/// Returns the cost of each label, by its key. `name` returns the name of a value; values without a name are left
/// out.
pub(crate) fn costs_of_labels<'a, N: Ord, W: Copy + Default + AddAssign>(
    profile: &'a Profile,
    sets: &[Option<W>],
    name: impl Fn(&Label) -> Option<N>,
) -> BTreeMap<&'a str, LabelCost<N, W>> {
    let mut keys: BTreeMap<&str, LabelCost<N, W>> = BTreeMap::new();
    for (row, weight) in sets.iter().enumerate() {
        let Some(weight) = *weight else { continue };
        let labels = profile.labels(LabelSetId::from_index(row));
        for (at, label) in labels.iter().enumerate() {
            let Some(name) = name(label) else { continue };
            let empty = || LabelCost { total: W::default(), values: BTreeMap::new() };
            let cost = keys.entry(profile.string(label.key)).or_insert_with(empty);
            *cost.values.entry(name).or_default() += weight;
            // A label with several values counts once.
            if !labels[..at].iter().any(|before| before.key == label.key) {
                cost.total += weight;
            }
        }
    }
    keys
}
