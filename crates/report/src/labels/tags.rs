//! `tags`: labels as in `go tool pprof`.

use flamelet_profile::{Label, unit};
use serde::Serialize;

use super::{LabelCost, costs_of_labels, costs_of_sets};
use crate::report::{Cost, Measure, Report, sum};

/// One value of a label.
#[derive(Clone, Debug, Serialize)]
pub struct TagValue {
    /// The value, formatted for people.
    pub name: String,
    /// The cost of the samples with it.
    pub value: i64,
}

/// One label.
#[derive(Clone, Debug, Serialize)]
pub struct TagKey {
    /// The label.
    pub key: String,
    /// The cost of the samples with it.
    pub total: i64,
    /// Its values, heaviest first.
    pub values: Vec<TagValue>,
}

/// The answer of `tags`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Tags {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The labels by name.
    pub keys: Vec<TagKey>,
}

/// Computes `tags`.
pub fn tags(report: &Report) -> Tags {
    let profile = &report.profile;
    let samples = profile.samples().map(|sample| (sample.labels, report.value(&sample)));
    let sets = costs_of_sets(profile, samples.map(|(labels, sum)| (labels, Cost { sum, divisor: 0 })));
    let name = |label: &Label| {
        if label.is_text() {
            return Some(profile.string(label.text).to_string());
        }
        let from = report.label_units.get(&label.key).map_or("", String::as_str);
        let is_set = label.number != 0 || !label.unit.is_empty();
        is_set.then(|| unit::label_in(label.number, from, &report.options.unit))
    };
    let key = |(key, cost): (&str, LabelCost<String, Cost>)| {
        let value = |(name, cost): (String, Cost)| TagValue { name, value: cost.sum };
        let mut values: Vec<TagValue> = cost.values.into_iter().map(value).collect();
        values.sort_by(|a, b| {
            b.value.unsigned_abs().cmp(&a.value.unsigned_abs()).then_with(|| a.name.cmp(&b.name))
        });
        TagKey { key: key.into(), total: sum(values.iter().map(|value| value.value)), values }
    };
    let keys = costs_of_labels(profile, &sets, name).into_iter().map(key).collect();
    Tags { measure: report.measure(), keys }
}
