//! OTLP's links to spans, from the labels `trace_id` and `span_id`. `flamelet-formats` reads them back.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Label, Profile, hex};
use rustc_hash::FxHashMap as HashMap;

const TRACE_ID: &str = "trace_id";
const SPAN_ID: &str = "span_id";

/// A trace and a span of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    trace: [u8; 16],
    span: [u8; 8],
}

impl Link {
    /// Returns the link that a set of labels has: one trace and one span, both in lower-case hexadecimal digits of the right
    /// length.
    pub(super) fn of(profile: &Profile, labels: &[Label]) -> Option<Self> {
        let only = |key: &str| {
            let mut found = labels.iter().filter(|label| label.is_text() && profile.string(label.key) == key);
            let only = found.next().filter(|_| found.next().is_none())?;
            Some(profile.string(only.text).as_bytes())
        };
        Some(Self {
            trace: only(TRACE_ID).and_then(hex::decode_array)?,
            span: only(SPAN_ID).and_then(hex::decode_array)?,
        })
    }
}

/// Returns whether a label is part of a link.
pub(super) fn is_part(key: &str) -> bool {
    [TRACE_ID, SPAN_ID].contains(&key)
}

/// The table of a request; entry 0, which stands for none, is not in here.
#[derive(Default)]
pub(super) struct Links {
    rows: Vec<Link>,
    numbers: HashMap<Link, u64>,
}

impl Links {
    pub(super) fn number(&mut self, link: Link) -> u64 {
        *self.numbers.entry(link).or_insert_with(|| {
            self.rows.push(link);
            self.rows.len() as u64
        })
    }

    pub(super) fn write(&self, out: &mut MessageWriter) {
        out.bytes(4, &[]);
        for link in &self.rows {
            out.message(4, |out| {
                out.bytes(1, &link.trace);
                out.bytes(2, &link.span);
            });
        }
    }
}
