//! How a value is distributed over the labels of its samples.

use flamelet_profile::{Label, Profile, number_units, unit};
use serde::Serialize;

use crate::labels::{LabelCost, costs_of_labels, costs_of_sets};
use crate::stacks::{DIFF_BASE_LABEL, Value, ValuePart, base_label_sets};

/// The most values of a label that are returned.
const MAX_VALUES: usize = 50;

#[derive(Clone, Debug, Serialize)]
struct LabelValue {
    text: String,
    /// The `tagfocus` filter that keeps only this value.
    filter: String,
    weight: u64,
    new: i64,
    base: i64,
}

/// The total of the samples that carry a label, and its distribution over the label's values.
#[derive(Clone, Debug, Serialize)]
pub struct LabelSpread {
    key: String,
    weight: u64,
    new: i64,
    base: i64,
    /// How many values there are; `values` may contain only the first.
    count: usize,
    numeric: bool,
    values: Vec<LabelValue>,
}

/// Whether it is a number, the number, the text: numbers sort by value.
type Key = (bool, i64, String);

/// Returns how the sample type at `sample_type` is distributed over labels. The label that marks the base of a diff
/// is left out: it says which side a sample is on.
pub fn labels(profile: &Profile, sample_type: usize) -> Vec<LabelSpread> {
    let units = number_units(profile);
    let base_sets = base_label_sets(profile);
    let samples = profile.samples().filter_map(|sample| {
        let &value = sample.values.get(sample_type)?;
        Some((sample.labels, Value::from(ValuePart::of(value, base_sets[sample.labels.index()]))))
    });
    let mut sets = costs_of_sets(profile, samples);
    sets.iter_mut().for_each(|set| *set = set.filter(|value| value.weight() != 0));
    let name = |label: &Label| {
        let unit = || units.get(&label.key).map_or("", String::as_str);
        match label.is_text() {
            true if profile.string(label.key) == DIFF_BASE_LABEL => None,
            true => Some((false, 0, profile.string(label.text).to_owned())),
            false => Some((true, label.number, unit::label(label.number, unit()))),
        }
    };
    costs_of_labels(profile, &sets, name).into_iter().map(|(key, cost)| spread(key, cost)).collect()
}

fn spread(key: &str, LabelCost { total, values }: LabelCost<Key, Value>) -> LabelSpread {
    let count = values.len();
    let numeric = values.keys().all(|(is_number, ..)| *is_number);
    let mut values: Vec<_> = values
        .into_iter()
        .map(|((is_number, _, text), value)| {
            let pattern = if is_number { text.clone() } else { format!("^{}$", escaped_pattern(&text)) };
            LabelValue {
                filter: format!("{key}={pattern}"),
                text,
                weight: value.weight(),
                new: value.new,
                base: value.base,
            }
        })
        .collect();
    // Numbers stay in order, as a histogram; texts are sorted by weight.
    if !numeric {
        values.sort_by_key(|value| std::cmp::Reverse(value.weight));
    }
    values.truncate(MAX_VALUES);
    let (weight, new, base) = (total.weight(), total.new, total.base);
    LabelSpread { key: key.to_owned(), weight, new, base, count, numeric, values }
}

/// Returns a regular expression that matches only `text`.
pub fn escaped_pattern(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // In label filters, a comma ends an expression.
        if c == ',' {
            out.push_str(r"\x2c");
            continue;
        }
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
