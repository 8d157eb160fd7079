//! What a thread is working on, as words for a table: its name and its labels.

use crate::labels::{self, LabelSet};
use crate::threads;

/// Longer contexts are cut at a label.
const MAX_BYTES: usize = 1024;

/// Labels that no two requests share. The tables count since the start of the process, and would fill up with them.
const OF_ONE_REQUEST: [&str; 2] = ["trace_id", "span_id"];

/// The longest context, in words.
pub(crate) const MAX_WORDS: usize = 1 + MAX_BYTES / 8;

/// A context as tables have it: pairs of texts, each ended by a zero byte, after a word with their length.
pub(crate) struct ContextWords {
    words: [u64; MAX_WORDS],
    length: usize,
}

impl ContextWords {
    pub(crate) fn new() -> Self {
        Self { words: [0; MAX_WORDS], length: 0 }
    }

    /// Returns the context of this thread: its name as the kernel has it now, and the labels with the number `labels`.
    /// Allocates nothing and waits for nothing.
    pub(crate) fn of_this_thread(labels: u32) -> Self {
        let mut text = Self::new();
        let name = threads::ask_name();
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        text.push(b"thread", &name[..length]);
        if labels != 0 {
            // The table of labels is behind a lock that this very thread may hold.
            if let Some(labels) = labels::try_resolve(labels) {
                text.push_labels(&labels);
            }
        }
        text
    }

    /// Adds all labels but those of a single request.
    pub(crate) fn push_labels(&mut self, labels: &LabelSet) {
        for (name, value) in labels.iter().filter(|(name, _)| !OF_ONE_REQUEST.contains(name)) {
            self.push(name.as_bytes(), value.as_bytes());
        }
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.length + name.len() + value.len() + 2 > MAX_BYTES {
            return;
        }
        let clean = |text: &'_ [u8]| !text.contains(&0);
        if !clean(name) || !clean(value) {
            return;
        }
        for part in [name, &[0], value, &[0]] {
            for &byte in part {
                self.words[1 + self.length / 8] |= u64::from(byte) << (self.length % 8 * 8);
                self.length += 1;
            }
        }
    }

    pub(crate) fn words(&mut self) -> &[u64] {
        self.words[0] = self.length as u64;
        &self.words[..1 + self.length.div_ceil(8)]
    }
}

/// Reads what [`ContextWords`] wrote: names and values.
pub(crate) fn parse(words: &[u64]) -> Vec<(String, String)> {
    let Some((&length, words)) = words.split_first() else { return Vec::new() };
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut parts = bytes.split(|&byte| byte == 0);
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if !name.is_empty() {
            pairs.push((text(name), text(value)));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut text = ContextWords::new();
        text.push(b"thread", b"worker-3");
        text.push(b"route", "/k\u{e4}se".as_bytes());
        text.push(b"empty", b"");
        text.push(b"too long", &[b'x'; MAX_BYTES]);
        let pairs = parse(text.words());
        let expected = [("thread", "worker-3"), ("route", "/k\u{e4}se"), ("empty", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn ids_of_one_request_are_left_out() {
        let mut text = ContextWords::new();
        text.push_labels(&LabelSet::new([("route", "/a"), ("span_id", "00f0"), ("trace_id", "4bf9")]));
        assert_eq!(parse(text.words()), [("route".to_owned(), "/a".to_owned())]);
    }

    #[test]
    fn nonsense_is_read_as_far_as_it_makes_sense() {
        assert!(parse(&[]).is_empty());
        assert!(parse(&[u64::MAX]).is_empty());
        assert!(parse(&[3, 0x0061_6161_6161_6161]).is_empty());
    }
}
