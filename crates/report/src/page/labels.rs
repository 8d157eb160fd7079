//! How a value is distributed over the labels of its samples.

use std::cmp::Reverse;

use flamelet_profile::{Label, Profile, number_units, sort_rows_by_key, unit};

use crate::labels::{LabelCost, costs_of_labels, costs_of_sets};
use crate::stacks::{DIFF_BASE_LABEL, Value, ValuePart, base_label_sets};

/// The most values of a label that are returned.
const MAX_VALUES: usize = 50;
/// How many labels, and how many values of each, a summary has.
#[cfg(feature = "text")]
const HEAVIEST: (usize, usize) = (3, 3);

#[derive(Clone, Debug)]
struct LabelValue {
    text: String,
    /// The `tagfocus` filter that keeps only this value.
    filter: String,
    weight: u64,
    new: i64,
    base: i64,
}
serialize!(LabelValue: text, filter, weight, new, base);

/// The total of the samples that carry a label, and its distribution over the label's values.
#[derive(Clone, Debug)]
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
serialize!(LabelSpread: key, weight, new, base, count, numeric, values);

/// Whether it is a number, the number, the text: numbers sort by value.
type Key = (bool, i64, String);

/// Returns how the sample type at `sample_type` is distributed over labels. The label that marks the base of a diff
/// is left out: it says which side a sample is on.
pub fn labels(profile: &Profile, sample_type: usize) -> Vec<LabelSpread> {
    let mut labels = spreads(profile, sample_type);
    for label in &mut labels {
        // Numbers stay in order, as a histogram; texts are sorted by weight.
        if !label.numeric {
            label.sort_by_weight();
        }
        label.values.truncate(MAX_VALUES);
    }
    labels
}

/// Returns the heaviest values of the labels that say most: texts before numbers, those with several values before
/// others, then by the total of the samples that carry them. Labels that are `shown_elsewhere` are left out.
#[cfg(feature = "text")]
pub(super) fn heaviest(
    profile: &Profile,
    sample_type: usize,
    shown_elsewhere: impl Fn(&str) -> bool,
) -> Vec<LabelSpread> {
    let (keys, values) = HEAVIEST;
    let mut labels = spreads(profile, sample_type);
    labels.retain(|label| !shown_elsewhere(&label.key));
    sort_rows_by_key(&mut labels, |label| (label.numeric, label.count == 1, Reverse(label.weight)));
    labels.truncate(keys);
    for label in &mut labels {
        label.sort_by_weight();
        label.values.truncate(values);
    }
    labels
}

/// Returns the labels by name, each with all its values in order.
fn spreads(profile: &Profile, sample_type: usize) -> Vec<LabelSpread> {
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
    let values = values
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
    let (weight, new, base) = (total.weight(), total.new, total.base);
    LabelSpread { key: key.to_owned(), weight, new, base, count, numeric, values }
}

impl LabelSpread {
    fn sort_by_weight(&mut self) {
        sort_rows_by_key(&mut self.values, |value| Reverse(value.weight));
    }
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
