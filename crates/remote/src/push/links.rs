//! OTLP's links to spans, from the labels `trace_id` and `span_id`. `flamelet-formats` reads them back.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Label, Profile};
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
            Some(profile.string(only.text))
        };
        Some(Self { trace: bytes_of(only(TRACE_ID)?)?, span: bytes_of(only(SPAN_ID)?)? })
    }
}

/// Returns whether a label is part of a link.
pub(super) fn is_part(key: &str) -> bool {
    [TRACE_ID, SPAN_ID].contains(&key)
}

/// Returns the bytes of `N * 2` lower-case hexadecimal digits.
fn bytes_of<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        });
        *byte = high? << 4 | low?;
    }
    Some(bytes)
}

/// The table of a request; entry 0, which stands for none, is not in here.
#[derive(Default)]
pub(super) struct Links {
    rows: Vec<Link>,
    numbers: HashMap<Link, u64>,
}

impl Links {
    /// Returns the number of a link.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_of_the_right_number_are_an_id() {
        assert_eq!(bytes_of("00ff7a"), Some([0, 255, 0x7a]));
        for wrong in ["", "00ff", "00ff7", "00ff7a00", "00FF7A", "0gff7a", "é0ff7"] {
            assert_eq!(bytes_of::<3>(wrong), None, "{wrong}");
        }
    }
}
