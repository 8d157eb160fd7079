//! The labels under each node of a drawn graph.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use flamelet_profile::{LabelSetId, unit};

use crate::report::{Cost, Report};
use crate::stacks::DIFF_BASE_LABEL;

/// A label value with its cost at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag<W = Cost> {
    pub(crate) name: String,
    /// The number and its unit, for numeric labels.
    pub(crate) number: i64,
    pub(crate) unit: String,
    pub(crate) flat: W,
    pub(crate) cum: W,
}

impl<W: Copy + Default + AddAssign> Tag<W> {
    /// Creates a label value without cost.
    fn new(label: &TagName) -> Self {
        let TagName { name, number, unit } = label.clone();
        Self { name, number, unit, flat: W::default(), cum: W::default() }
    }

    fn add(&mut self, weight: W, is_flat: bool) {
        let sum = if is_flat { &mut self.flat } else { &mut self.cum };
        *sum += weight;
    }
}

impl Tag {
    fn is_at_least(&self, cutoff: i64) -> bool {
        self.flat.sum.saturating_abs() >= cutoff || self.cum.sum.saturating_abs() >= cutoff
    }
}

/// The labels of one node: text labels by their joined text, and numbers under the text they came with.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTags<W = Cost> {
    pub(crate) texts: BTreeMap<String, Tag<W>>,
    pub(crate) numbers: BTreeMap<String, BTreeMap<String, Tag<W>>>,
}

/// The name of a label value.
#[derive(Clone)]
struct TagName {
    name: String,
    number: i64,
    unit: String,
}

/// The names of each label set under a node: its texts joined, and its numbers.
pub(crate) struct TagNames {
    sets: Vec<(TagName, Vec<TagName>)>,
}

impl TagNames {
    /// Computes the names. Text labels are joined; of the numeric ones only `bytes` is drawn, as in pprof.
    pub(super) fn of(report: &Report) -> Self {
        let profile = &report.profile;
        let name_set = |id: LabelSetId| {
            let labels = profile.labels(id);
            let mut texts: Vec<String> = labels
                .iter()
                .filter(|label| label.is_text() && profile.string(label.key) != DIFF_BASE_LABEL)
                .map(|label| format!("{}:{}", profile.string(label.key), profile.string(label.text)))
                .collect();
            texts.sort();
            let numbers = labels
                .iter()
                .filter(|label| !label.is_text() && profile.string(label.key) == "bytes")
                .map(|label| {
                    let from = report.label_units.get(&label.key).map_or("bytes", String::as_str);
                    TagName { name: unit::label(label.number, from), number: label.number, unit: from.into() }
                })
                .collect();
            (TagName { name: texts.join("\\n"), number: 0, unit: String::new() }, numbers)
        };
        Self { sets: (0..profile.label_set_count()).map(LabelSetId::from_index).map(name_set).collect() }
    }
}

impl<W: Copy + Default + AddAssign> NodeTags<W> {
    pub(super) fn add(&mut self, names: &TagNames, labels: LabelSetId, weight: W, is_flat: bool) {
        let (text, numbers) = &names.sets[labels.index()];
        if !text.name.is_empty() {
            let tag = self.texts.entry(text.name.clone()).or_insert_with(|| Tag::new(text));
            tag.add(weight, is_flat);
        }
        for number in numbers {
            let below = self.numbers.entry(text.name.clone()).or_default();
            below.entry(number.name.clone()).or_insert_with(|| Tag::new(number)).add(weight, is_flat);
        }
    }
}

impl NodeTags {
    pub(super) fn trim(&mut self, cutoff: i64) {
        self.texts.retain(|_, tag| tag.is_at_least(cutoff));
        for below in self.numbers.values_mut() {
            below.retain(|_, tag| tag.is_at_least(cutoff));
        }
    }

    /// Returns how many labels have a flat cost at this node.
    pub(super) fn count(&self) -> usize {
        let all = self.texts.values().chain(self.numbers.values().flat_map(BTreeMap::values));
        all.filter(|tag| tag.flat.sum != 0).count()
    }
}

/// Sorts labels by their cost, then by name.
pub(crate) fn sort(tags: &mut [Tag], by_flat: bool) {
    tags.sort_by(|a, b| {
        let by_cum = if by_flat { std::cmp::Ordering::Equal } else { size(b.cum).cmp(&size(a.cum)) };
        by_cum.then_with(|| size(b.flat).cmp(&size(a.flat))).then_with(|| a.name.cmp(&b.name))
    });
}

fn size(cost: Cost) -> u64 {
    cost.sum.unsigned_abs()
}

/// Merges a group of numbers into one label: `1MB..2MB`.
pub(crate) fn join(group: &[Tag]) -> Tag {
    let bytes = |tag: &&Tag| unit::scale(tag.number, &tag.unit, "b").0 as i64;
    let (Some(smallest), Some(largest)) = (group.iter().min_by_key(bytes), group.iter().max_by_key(bytes))
    else {
        return Tag::default();
    };
    let label = |tag: &Tag| unit::label(tag.number, &tag.unit);
    let name =
        if group.len() == 1 { label(smallest) } else { format!("{}..{}", label(smallest), label(largest)) };
    let mut joined = Tag { name, number: smallest.number, unit: smallest.unit.clone(), ..Tag::default() };
    for tag in group {
        joined.add(tag.flat, true);
        joined.add(tag.cum, false);
    }
    joined
}
