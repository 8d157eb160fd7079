//! Filters on labels: tagfocus, tagignore, tagshow, taghide.

use std::collections::BTreeMap;

use regex::Regex;

use super::{FilterOutcome, regex};
use crate::{Label, LabelSetId, Profile, Result, StringId, unit};

/// A filter on labels, as tagfocus and tagignore take it.
#[derive(Clone, Debug)]
pub(super) struct TagFilter {
    option: &'static str,
    key: Option<String>,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    /// Text labels: every expression must match a `key:value`; with a key given, any expression may match its value.
    Text(Vec<Regex>),
    /// Numeric labels.
    Range { range: Range, written: String },
}

/// Numbers between two bounds, both included, in a unit.
#[derive(Clone, Debug, PartialEq)]
struct Range {
    low: Option<f64>,
    high: Option<f64>,
    unit: String,
}

impl TagFilter {
    pub(super) fn parse(option: &'static str, text: &str) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_string()), value),
            None => (None, text),
        };
        let test = match Range::parse(value) {
            Some(range) => Test::Range { range, written: value.into() },
            None => {
                let parts: Result<Vec<_>> = value.split(',').map(|part| regex(option, part)).collect();
                // An empty expression matches everything.
                let everything = || Regex::new("").expect("the empty expression is valid");
                Test::Text(parts?.into_iter().map(|part| part.unwrap_or_else(everything)).collect())
            }
        };
        let key = key.filter(|key| !key.is_empty());
        Ok(Some(Self { option, key, test }))
    }

    fn matches(&self, profile: &Profile, labels: &[Label], units: &BTreeMap<StringId, String>) -> bool {
        let is_wanted =
            |label: &&Label| self.key.as_deref().is_none_or(|key| profile.string(label.key) == key);
        match &self.test {
            Test::Range { range, .. } => labels.iter().filter(is_wanted).any(|label| {
                let unit = units.get(&label.key).map_or("", String::as_str);
                !label.is_text() && range.contains(label.number, unit)
            }),
            Test::Text(expressions) => {
                let texts = labels.iter().filter(|label| label.is_text()).filter(is_wanted);
                match &self.key {
                    Some(_) => expressions
                        .iter()
                        .any(|regex| texts.clone().any(|label| regex.is_match(profile.string(label.text)))),
                    None => {
                        let texts: Vec<String> = texts
                            .map(|l| format!("{}:{}", profile.string(l.key), profile.string(l.text)))
                            .collect();
                        expressions.iter().all(|regex| texts.iter().any(|text| regex.is_match(text)))
                    }
                }
            }
        }
    }

    fn note(&self) -> Option<String> {
        match &self.test {
            Test::Range { written, .. } => {
                Some(format!("{}: read '{written}' as a range, not as a regular expression", self.option))
            }
            Test::Text(_) => None,
        }
    }
}

impl Range {
    /// Parses `32kb`, `:64kb`, `4mb:` or `12kb:64mb`; anything else is not a range.
    fn parse(text: &str) -> Option<Self> {
        let (low, high) = match text.split_once(':') {
            None => (Some(bound(text)?), Some(bound(text)?)),
            Some((low, "")) => (Some(bound(low)?), None),
            Some(("", high)) => (None, Some(bound(high)?)),
            Some((low, high)) => (Some(bound(low)?), Some(bound(high)?)),
        };
        let (_, first_unit) = low.or(high)?;
        let (_, unit) = unit::scale(0, first_unit, first_unit);
        let in_unit = |(number, from): (i64, &str)| {
            let (scaled, name) = unit::scale(number, from, unit);
            (name == unit).then_some(scaled)
        };
        let scale = |bound: Option<(i64, &str)>| bound.map(in_unit);
        let (low, high) = (scale(low), scale(high));
        if low == Some(None) || high == Some(None) {
            return None;
        }
        Some(Self { low: low.flatten(), high: high.flatten(), unit: unit.to_string() })
    }

    fn contains(&self, number: i64, from: &str) -> bool {
        let (scaled, name) = unit::scale(number, from, &self.unit);
        name == self.unit
            && self.low.is_none_or(|low| scaled >= low)
            && self.high.is_none_or(|high| scaled <= high)
    }
}

/// Parses a number and its unit: digits, then letters.
fn bound(text: &str) -> Option<(i64, &str)> {
    let signless = text.trim_start_matches(['+', '-']);
    if text.len() - signless.len() > 1 {
        return None;
    }
    let digits = signless.find(|c: char| !c.is_ascii_digit()).unwrap_or(signless.len());
    let (number, unit) = text.split_at(text.len() - signless.len() + digits);
    let is_word = unit.chars().all(|c| c.is_ascii_alphabetic());
    if digits == 0 || !is_word {
        return None;
    }
    Some((number.parse().ok()?, unit))
}

pub(super) fn by_tag(
    profile: &mut Profile,
    focus: Option<&TagFilter>,
    ignore: Option<&TagFilter>,
    outcome: &mut FilterOutcome,
) {
    if focus.is_none() && ignore.is_none() {
        return;
    }
    outcome.notes.extend([focus, ignore].into_iter().flatten().filter_map(TagFilter::note));
    let units = crate::number_units(profile);
    let judge = |filter: Option<&TagFilter>| -> Option<Vec<bool>> {
        let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
        filter.map(|filter| sets.map(|id| filter.matches(profile, profile.labels(id), &units)).collect())
    };
    let (focused, ignored) = (judge(focus), judge(ignore));
    let matches = |sets: &Option<Vec<bool>>, id: &LabelSetId| sets.as_ref().map(|sets| sets[id.index()]);
    let labels = &profile.samples.labels;
    let any = |sets: &Option<Vec<bool>>| labels.iter().any(|id| matches(sets, id) == Some(true));
    outcome.report("TagFocus", focus.is_some(), any(&focused));
    outcome.report("TagIgnore", ignore.is_some(), any(&ignored));
    let keep: Vec<bool> = labels
        .iter()
        .map(|id| matches(&focused, id) != Some(false) && matches(&ignored, id) != Some(true))
        .collect();
    profile.retain_samples(&keep);
}

pub(super) fn by_key(
    profile: &mut Profile,
    show: Option<&Regex>,
    hide: Option<&Regex>,
    outcome: &mut FilterOutcome,
) {
    if show.is_none() && hide.is_none() {
        return;
    }
    let keys: BTreeMap<StringId, (bool, bool)> = profile
        .label_sets
        .items
        .iter()
        .map(|label| {
            let key = profile.string(label.key);
            let is_match = |regex: Option<&Regex>| regex.is_some_and(|regex| regex.is_match(key));
            (label.key, (is_match(show), is_match(hide)))
        })
        .collect();
    outcome.report("TagShow", show.is_some(), keys.values().any(|&(shown, _)| shown));
    outcome.report("TagHide", hide.is_some(), keys.values().any(|&(_, hidden)| hidden));
    profile.map_label_sets(|labels| {
        labels.retain(|label| {
            let (shown, hidden) = keys[&label.key];
            (show.is_none() || shown) && !hidden
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<(Option<f64>, Option<f64>, String)> {
        Range::parse(text).map(|range| (range.low, range.high, range.unit))
    }

    #[test]
    fn ranges_are_distinguished_from_expressions() {
        assert_eq!(range("128kb:512kb"), Some((Some(128.0), Some(512.0), "kB".into())));
        assert_eq!(range("4mb:"), Some((Some(4.0), None, "MB".into())));
        assert_eq!(range(":64kb"), Some((None, Some(64.0), "kB".into())));
        assert_eq!(range("12kb:1mb"), Some((Some(12.0), Some(1024.0), "kB".into())));
        assert_eq!(range("32"), Some((Some(32.0), Some(32.0), String::new())));
        assert_eq!(range("key:val"), None);
        assert_eq!(range("a32kb"), None);
        assert_eq!(range("1kb:2s"), None);
    }
}
