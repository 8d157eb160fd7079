//! `traces`: every stack with its value and labels.

use std::collections::BTreeMap;

use flamelet_profile::{Sample, unit};
use serde::Serialize;

use crate::report::Report;
use crate::stacks::Nodes;

/// A frame of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceFrame {
    /// The function.
    pub name: String,
    /// Whether it was inlined into the next frame.
    pub inlined: bool,
}

/// One sample.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// Its value.
    pub value: i64,
    /// Its text labels.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Its numeric labels, formatted for people.
    pub numbers: BTreeMap<String, Vec<String>>,
    /// Its frames, leaf first.
    pub frames: Vec<TraceFrame>,
}

/// Returns every sample that has a stack, in the order of the file. They are produced one at a time, since there may
/// be millions.
pub fn traces(report: &Report) -> impl Iterator<Item = Trace> {
    let nodes = Nodes::of(&report.profile, false);
    let names: Vec<String> = nodes.infos.iter().map(|info| info.printable(&report.profile)).collect();
    report.profile.samples().filter_map(move |sample| trace(report, &nodes, &names, &sample))
}

fn trace(report: &Report, nodes: &Nodes, names: &[String], sample: &Sample<'_>) -> Option<Trace> {
    let profile = &report.profile;
    let mut frames = Vec::new();
    for &location in profile.stack(sample.stack) {
        let at = nodes.at(location);
        frames.extend(at.iter().enumerate().map(|(row, &node)| TraceFrame {
            name: names[node as usize].clone(),
            inlined: row + 1 != at.len(),
        }));
    }
    if frames.is_empty() {
        return None;
    }
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut numbers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for label in profile.labels(sample.labels) {
        let key = profile.string(label.key).to_string();
        if label.is_text() {
            labels.entry(key).or_default().push(profile.string(label.text).into());
        } else {
            let from = report.label_units.get(&label.key).map_or("", String::as_str);
            numbers.entry(key).or_default().push(unit::label(label.number, from));
        }
    }
    let (value, divisor) = (report.value(sample), report.divisor(sample));
    let value = if divisor == 0 { value } else { value / divisor };
    Some(Trace { value, labels, numbers, frames })
}
