//! Rules that need more than a list of functions.

use rustc_hash::FxHashMap;

use super::facts::{Facts, Place};
use crate::by::add;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub(super) struct Detected {
    pub(super) value: i64,
    /// Details to add to the rule's title.
    pub(super) detail: String,
    pub(super) places: FxHashMap<Place, i64>,
}

/// Fewer observations than this prove little.
const FEW: u64 = 100;

pub(super) fn poor_profile(facts: &Facts<'_>) -> Option<Detected> {
    let mut reasons = Vec::new();
    if facts.observations < FEW {
        reasons.push(format!("it has {} samples", facts.observations));
    }
    let unnamed = facts.share(facts.unnamed);
    if unnamed > 0.3 {
        reasons.push(format!("{:.0} % of it is in functions without names", unnamed * 100.0));
    }
    if let Some(quality) = &facts.report.profile.quality {
        let all = quality.samples.saturating_add(quality.lost).max(1);
        let lost = quality.lost as f64 / all as f64;
        if lost > 0.1 {
            reasons.push(format!("{:.0} % of the samples were lost", lost * 100.0));
        }
        let cut = quality.truncated as f64 / quality.samples.max(1) as f64;
        if cut > 0.2 {
            reasons.push(format!("{:.0} % of the stacks are cut off", cut * 100.0));
        }
    }
    (!reasons.is_empty()).then(|| Detected { detail: reasons.join("; "), ..Detected::default() })
}

/// Reports all system calls, and names the most expensive ones.
pub(super) fn system_calls(facts: &Facts<'_>) -> Option<Detected> {
    let all: i64 = facts.calls.values().map(|calls| calls.value).sum();
    let mut calls: Vec<_> = facts.calls.iter().collect();
    calls.sort_by(|a, b| b.1.value.cmp(&a.1.value).then_with(|| a.0.cmp(b.0)));
    let named =
        calls.iter().take(3).map(|(name, calls)| format!("{name} {:.0} %", facts.share(calls.value) * 100.0));
    let detail = named.collect::<Vec<_>>().join(", ");
    let places = calls.first().map(|(_, calls)| calls.places.clone()).unwrap_or_default();
    Some(Detected { value: all, detail, places })
}

pub(super) fn one_busy_thread(facts: &Facts<'_>) -> Option<Detected> {
    let (name, &value) = facts.threads.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
    let is_known = facts.threads.len() >= 3 && name != "<unknown>";
    (is_known && facts.share(value) >= 0.8).then(|| Detected {
        value,
        detail: format!("{name}, one of {} threads", facts.threads.len()),
        ..Detected::default()
    })
}

/// Reports a function of yours with much of the time, nearly all of it in at most three of its lines.
pub(super) fn few_lines(facts: &Facts<'_>) -> Option<Detected> {
    let mut functions: FxHashMap<_, Vec<_>> = FxHashMap::default();
    for (place, &value) in facts.places.iter().filter(|(place, _)| place.line > 0) {
        functions.entry(place.function).or_default().push((*place, value));
    }
    let total = |lines: &Vec<(_, i64)>| lines.iter().map(|(_, value)| value).sum::<i64>();
    let (_, mut lines) =
        functions.into_iter().max_by_key(|(function, lines)| (total(lines), std::cmp::Reverse(*function)))?;
    let all = total(&lines);
    lines.sort_by_key(|(place, value)| (std::cmp::Reverse(*value), *place));
    let top: Vec<_> = lines.iter().take(3).copied().collect();
    let is_clear = facts.share(all) >= 0.15 && lines.len() > 3 && total(&top) as f64 >= 0.8 * all as f64;
    is_clear.then(|| Detected {
        value: total(&top),
        detail: format!("{} of {} lines", top.len(), lines.len()),
        places: top.into_iter().collect(),
    })
}

/// Reports at most three functions of yours that account for four fifths of the cost.
pub(super) fn few_owners(facts: &Facts<'_>) -> Option<Detected> {
    let mut functions: FxHashMap<_, i64> = FxHashMap::default();
    for (place, &value) in &facts.places {
        add(functions.entry(Place { line: 0, ..*place }).or_default(), value);
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(place, value)| (std::cmp::Reverse(*value), *place));
    functions.truncate(3);
    let value = functions.iter().map(|(_, value)| value).sum();
    (facts.share(value) >= 0.8).then(|| Detected {
        value,
        detail: String::new(),
        places: functions.into_iter().collect(),
    })
}
