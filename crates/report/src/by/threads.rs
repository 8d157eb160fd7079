//! Totals by thread.

use std::hash::Hash;

use flamelet_profile::{LabelSetId, Profile, Sample};
use rustc_hash::FxHashMap;

use super::add;

/// Returns the sum of `value` over the samples of each thread, without samples of no value.
pub(crate) fn totals_by_thread(
    profile: &Profile,
    value: impl Fn(&Sample<'_>) -> i64,
) -> FxHashMap<String, i64> {
    totals_by(profile, value, |set| thread_of(profile, set))
}

/// Returns the totals of each thread of each process, which is empty where the profile does not say it.
pub(crate) fn totals_by_process_and_thread(
    profile: &Profile,
    value: impl Fn(&Sample<'_>) -> i64,
) -> FxHashMap<(String, String), i64> {
    totals_by(profile, value, |set| (process_of(profile, set), thread_of(profile, set)))
}

fn totals_by<K: Eq + Hash>(
    profile: &Profile,
    value: impl Fn(&Sample<'_>) -> i64,
    key: impl Fn(LabelSetId) -> K,
) -> FxHashMap<K, i64> {
    // There are far fewer sets of labels than samples.
    let mut sets: Vec<Option<i64>> = vec![None; profile.label_set_count().max(1)];
    for sample in profile.samples() {
        match value(&sample) {
            0 => {}
            value => add(sets[sample.labels.index()].get_or_insert(0), value),
        }
    }
    let mut totals = FxHashMap::default();
    for (set, total) in sets.into_iter().enumerate().filter_map(|(set, total)| Some((set, total?))) {
        add(totals.entry(key(LabelSetId::from_index(set))).or_default(), total);
    }
    totals
}

fn process_of(profile: &Profile, set: LabelSetId) -> String {
    let label = profile.labels(set).iter().find(|label| profile.string(label.key) == "pid");
    label.map_or_else(String::new, |label| match label.is_text() {
        true => profile.string(label.text).to_owned(),
        false => label.number.to_string(),
    })
}

fn thread_of(profile: &Profile, set: LabelSetId) -> String {
    let labels = profile.labels(set);
    let named = |key: &str| labels.iter().find(|label| profile.string(label.key) == key);
    let text = named("thread").or_else(|| named("thread_name")).map(|label| profile.string(label.text));
    match (text.filter(|text| !text.is_empty()), named("tid").or_else(|| named("thread_id"))) {
        (Some(text), _) => text.to_owned(),
        (None, Some(tid)) if tid.is_text() => profile.string(tid.text).to_owned(),
        (None, Some(tid)) => format!("thread {}", tid.number),
        (None, None) => "<unknown>".into(),
    }
}
