//! Links to spans: in the dictionary, and as the labels `trace_id` and `span_id` of our profiles.

use flamelet_profile::{Label, Profile, hex};

use super::model::Link;

pub(super) const TRACE_ID: &str = "trace_id";
pub(super) const SPAN_ID: &str = "span_id";

impl Link {
    /// Returns the link that a set of labels has: one trace and one span, both in hexadecimal digits of the right length.
    pub(super) fn of_labels(profile: &Profile, labels: &[Label]) -> Option<Self> {
        let [trace_id, span_id] = [(TRACE_ID, 32), (SPAN_ID, 16)].map(|(key, digits)| {
            let mut found = labels.iter().filter(|label| label.is_text() && profile.string(label.key) == key);
            let only = found.next().filter(|_| found.next().is_none())?;
            let text = profile.string(only.text);
            (text.len() == digits && hex::decode(text).is_some()).then(|| text.to_owned())
        });
        Some(Self { trace_id: trace_id?, span_id: span_id? })
    }

    /// Returns whether there is a link at all; entry 0 of the table is none.
    pub(super) fn is_none(&self) -> bool {
        self.trace_id.is_empty() && self.span_id.is_empty()
    }
}

/// Returns whether a label is part of a link.
pub(super) fn is_part(key: &str) -> bool {
    [TRACE_ID, SPAN_ID].contains(&key)
}
