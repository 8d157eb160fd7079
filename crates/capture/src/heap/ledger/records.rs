//! Records: a word with length and hash, then that many words.

use super::{Index, Ledger, LedgerSection};
pub(super) use crate::tables::hash;
use std::sync::atomic::Ordering;

/// Where in its section a record starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in super::super) struct RecordId(pub(in super::super) u32);

impl RecordId {
    /// No record: there was no room.
    pub(in super::super) const NONE: Self = Self(0);
}

/// The longest record, in words.
pub(super) const MAX_RECORD: usize = 0xffff;

/// The first word of a record: the upper part of its hash, and its length.
#[inline]
pub(super) fn head(hash: u64, length: usize) -> u64 {
    (hash & !0xffff) | (length as u64 & 0xffff)
}

impl LedgerSection {
    /// Returns the unit, in words, in which numbers of this section count.
    pub(super) const fn row_words(self) -> usize {
        match self {
            Self::Modules | Self::Contexts | Self::Stacks => 1,
            Self::Sites => super::rows::SITE_WORDS,
            Self::Ends => super::rows::END_WORDS,
        }
    }
}

impl Ledger {
    pub(super) fn record(&self, section: LedgerSection, index: &Index, words: &[u64]) -> RecordId {
        let words = &words[..words.len().min(MAX_RECORD)];
        let hash = hash(words);
        let head = head(hash, words.len());
        let start = self.load(section.entry()) as usize;
        let is_same = |id: u32| {
            let at = start + id as usize;
            self.words[at].load(Ordering::Acquire) == head
                && words
                    .iter()
                    .zip(&self.words[at + 1..])
                    .all(|(word, known)| known.load(Ordering::Relaxed) == *word)
        };
        let make = || {
            let id = self.claim(section, 1 + words.len(), 0)?;
            let at = start + id as usize;
            for (offset, &word) in words.iter().enumerate() {
                self.store(at + 1 + offset, word);
            }
            self.store(at, head);
            self.publish_words(at, at + 1 + words.len());
            Some(id)
        };
        RecordId(index.find_or_insert(hash, is_same, make).unwrap_or(0))
    }

    /// Takes `words` words of `section`, if that leaves `spared` of them; returns where they start in it.
    pub(super) fn claim(&self, section: LedgerSection, words: usize, spared: usize) -> Option<u32> {
        let capacity = self.load(section.entry() + 1).saturating_sub(spared as u64);
        // Once full, the counter must not creep towards an overflow.
        if self.load(section.entry() + 2) + words as u64 > capacity {
            return None;
        }
        let at = self.add(section.entry() + 2, words as u64);
        self.mirror.header_is_due();
        (at + words as u64 <= capacity).then_some(at as u32)
    }
}
