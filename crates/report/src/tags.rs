//! `tags`: what each label value cost.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flamelet_profile::{LabelSetId, unit};
use serde::Serialize;

use crate::report::Report;

/// One value of a label.
#[derive(Clone, Debug, Serialize)]
pub struct TagValue {
    /// The value, as a person reads it.
    pub name: String,
    /// What the samples with it cost.
    pub value: i64,
}

/// One label.
#[derive(Clone, Debug, Serialize)]
pub struct TagKey {
    /// The label.
    pub key: String,
    /// What the samples with it cost.
    pub total: i64,
    /// Its values, heaviest first.
    pub values: Vec<TagValue>,
}

/// The answer of `tags`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Tags {
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// What percentages are of.
    pub total: i64,
    /// The labels by name.
    pub keys: Vec<TagKey>,
}

/// Answers `tags`.
pub fn tags(report: &Report) -> Tags {
    let profile = &report.profile;
    let mut of_sets = vec![0i64; profile.label_set_count()];
    for sample in profile.samples() {
        let sum = &mut of_sets[sample.labels.index()];
        *sum = sum.saturating_add(report.value(&sample));
    }
    let mut used = vec![false; profile.label_set_count()];
    profile.samples().for_each(|sample| used[sample.labels.index()] = true);
    let mut keys: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
    for row in (0..profile.label_set_count()).filter(|&row| used[row]) {
        for label in profile.labels(LabelSetId::from_index(row)) {
            let name = if label.is_text() {
                profile.string(label.text).to_string()
            } else if label.number == 0 && label.unit.is_empty() {
                continue;
            } else {
                let from = report.label_units.get(&label.key).map_or("", String::as_str);
                unit::label_in(label.number, from, &report.options.unit)
            };
            let values = keys.entry(profile.string(label.key)).or_default();
            let sum = values.entry(name).or_default();
            *sum = sum.saturating_add(of_sets[row]);
        }
    }
    let keys = keys
        .into_iter()
        .map(|(key, values)| {
            let total = values.values().sum();
            let mut values: Vec<TagValue> =
                values.into_iter().map(|(name, value)| TagValue { name, value }).collect();
            values.sort_by(|a, b| {
                b.value.unsigned_abs().cmp(&a.value.unsigned_abs()).then_with(|| a.name.cmp(&b.name))
            });
            TagKey { key: key.into(), total, values }
        })
        .collect();
    Tags { sample_type: report.value_name(), unit: report.unit().to_string(), total: report.total, keys }
}

impl Tags {
    /// Prints the labels as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let format = |value: i64| report.format(value, &report.options.unit);
        let share = |value: i64| match self.total {
            1.. => format!(" ({})", unit::percentage(value, self.total)),
            _ => String::new(),
        };
        for key in &self.keys {
            let values: Vec<String> =
                key.values.iter().map(|tag| format!("{}{}:", format(tag.value), share(tag.value))).collect();
            let first = format!("{}:", key.key);
            let widest = values.iter().map(|text| text.chars().count() + 1);
            let width = widest.chain([first.chars().count()]).max().unwrap_or(0);
            let of_all = format!("Total {} of {}{}", format(key.total), format(self.total), share(key.total));
            writeln!(out, "{first:>width$} {of_all}")?;
            for (tag, text) in std::iter::zip(&key.values, values) {
                writeln!(out, "{text:>width$} {}", tag.name)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
