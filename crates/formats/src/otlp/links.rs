//! Links to spans: in the dictionary, and as the labels `trace_id` and `span_id` of our profiles.

use flamelet_profile::{Label, Profile};

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
            (text.len() == digits && bytes_of(text).is_some()).then(|| text.to_owned())
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

/// Returns the bytes of lower-case hexadecimal digits; `None` if it is anything else, which would not be the same when it
/// is read again.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?)).collect()
}

/// Returns bytes as hexadecimal digits.
pub(super) fn digits_of(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_each_others_inverse() {
        assert_eq!(bytes_of("00ff7a"), Some(vec![0, 255, 0x7a]));
        assert_eq!(digits_of(&[0, 255, 0x7a]), "00ff7a");
        for wrong in ["0", "0g", "FF", "é"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
