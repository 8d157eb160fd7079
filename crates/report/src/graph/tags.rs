//! The labels under each node of a drawn graph.

use std::collections::BTreeMap;

use flamelet_profile::{LabelSetId, Sample, unit};

use crate::report::{DIFF_BASE_LABEL, Report};

/// A label value with its cost at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: String,
    /// The number and its unit, for numeric labels.
    pub(crate) number: i64,
    pub(crate) unit: String,
    pub(crate) flat: i64,
    pub(crate) cum: i64,
    flat_divisor: i64,
    cum_divisor: i64,
}

impl Tag {
    pub(crate) fn flat_value(&self) -> i64 {
        if self.flat_divisor == 0 { self.flat } else { self.flat / self.flat_divisor }
    }

    pub(crate) fn cum_value(&self) -> i64 {
        if self.cum_divisor == 0 { self.cum } else { self.cum / self.cum_divisor }
    }

    fn add(&mut self, value: i64, divisor: i64, is_flat: bool) {
        if is_flat {
            (self.flat, self.flat_divisor) = (self.flat + value, self.flat_divisor + divisor);
        } else {
            (self.cum, self.cum_divisor) = (self.cum + value, self.cum_divisor + divisor);
        }
    }

    fn is_at_least(&self, cutoff: i64) -> bool {
        self.flat.saturating_abs() >= cutoff || self.cum.saturating_abs() >= cutoff
    }
}

/// The labels of one node: text labels by their joined text, numbers below the text they came with.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTags {
    pub(crate) texts: BTreeMap<String, Tag>,
    pub(crate) numbers: BTreeMap<String, BTreeMap<String, Tag>>,
}

/// What each label set is called under a node.
pub(super) struct TagNames {
    sets: Vec<(String, Vec<Tag>)>,
}

impl TagNames {
    /// Text labels are joined; of the numeric ones only `bytes` is drawn, as pprof does.
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
                    let name = unit::label(label.number, from);
                    Tag { name, number: label.number, unit: from.into(), ..Tag::default() }
                })
                .collect();
            (texts.join("\\n"), numbers)
        };
        Self { sets: (0..profile.label_set_count()).map(LabelSetId::from_index).map(name_set).collect() }
    }
}

impl NodeTags {
    pub(super) fn add(
        &mut self,
        names: &TagNames,
        sample: &Sample<'_>,
        value: i64,
        divisor: i64,
        is_flat: bool,
    ) {
        let (text, numbers) = &names.sets[sample.labels.index()];
        if !text.is_empty() {
            let tag = self.texts.entry(text.clone()).or_default();
            tag.name.clone_from(text);
            tag.add(value, divisor, is_flat);
        }
        for number in numbers {
            let below = self.numbers.entry(text.clone()).or_default();
            let tag = below.entry(number.name.clone()).or_insert_with(|| number.clone());
            tag.add(value, divisor, is_flat);
        }
    }

    pub(super) fn trim(&mut self, cutoff: i64) {
        self.texts.retain(|_, tag| tag.is_at_least(cutoff));
        for below in self.numbers.values_mut() {
            below.retain(|_, tag| tag.is_at_least(cutoff));
        }
    }

    /// How many labels have a cost of their own here.
    pub(super) fn count(&self) -> usize {
        let all = self.texts.values().chain(self.numbers.values().flat_map(BTreeMap::values));
        all.filter(|tag| tag.flat != 0).count()
    }
}

/// Sorts labels by their cost, then by name.
pub(crate) fn sort(tags: &mut [Tag], by_flat: bool) {
    tags.sort_by(|a, b| {
        let by_cum = if by_flat { std::cmp::Ordering::Equal } else { size(b.cum).cmp(&size(a.cum)) };
        by_cum.then_with(|| size(b.flat).cmp(&size(a.flat))).then_with(|| a.name.cmp(&b.name))
    });
}

fn size(value: i64) -> u64 {
    value.unsigned_abs()
}

/// One label for a group of numbers: `1MB..2MB`.
pub(crate) fn join(group: &[Tag]) -> Tag {
    let bytes = |tag: &&Tag| unit::scale(tag.number, &tag.unit, "b").0 as i64;
    let (Some(smallest), Some(largest)) = (group.iter().min_by_key(bytes), group.iter().max_by_key(bytes))
    else {
        return Tag::default();
    };
    let label = |tag: &Tag| unit::label(tag.number, &tag.unit);
    let name =
        if group.len() == 1 { label(smallest) } else { format!("{}..{}", label(smallest), label(largest)) };
    let sum = |of: fn(&Tag) -> i64| group.iter().map(of).sum();
    Tag {
        name,
        number: smallest.number,
        unit: smallest.unit.clone(),
        flat: sum(|tag| tag.flat),
        cum: sum(|tag| tag.cum),
        flat_divisor: sum(|tag| tag.flat_divisor),
        cum_divisor: sum(|tag| tag.cum_divisor),
    }
}
