//! Reading a ledger: this process' own while it changes, or a file that any process left behind.
//!
//! A file is never trusted: every offset, length and count is checked against its actual size, records are checked
//! against their hash, and what is invalid is left out and counted.

use super::module_words::{self, ImageModule};
use super::rows::{self, end, site};
use super::{
    Field, HEADER_WORDS, LedgerSection, MAGIC, MAX_FRAMES, MODULES_WORDS, Reason, RecordId, RowId, records,
};
use crate::tables::context_words;
use flamelet_profile::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that can be read one by one.
pub(in super::super) trait Words {
    fn count(&self) -> usize;
    /// Returns the word at `at`, which is below the count.
    fn word(&self, at: usize) -> u64;
}

impl Words for [AtomicU64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, at: usize) -> u64 {
        self[at].load(Ordering::Acquire)
    }
}

/// The bytes of a file.
impl Words for [u8] {
    fn count(&self) -> usize {
        self.len() / 8
    }

    fn word(&self, at: usize) -> u64 {
        self[at * 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The counts of a site. Objects are in units of 1/65536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Site {
    pub(in super::super) id: RowId,
    pub(in super::super) stack: RecordId,
    pub(in super::super) context: RecordId,
    pub(in super::super) size: u64,
    pub(in super::super) allocated: Counts,
    pub(in super::super) live: Counts,
    pub(in super::super) peak: Counts,
}

/// Objects, in units of 1/65536, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Counts {
    pub(in super::super) objects: i64,
    pub(in super::super) bytes: i64,
}

/// How objects of a site ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct End {
    pub(in super::super) id: RowId,
    pub(in super::super) site: RowId,
    pub(in super::super) stack: RecordId,
    pub(in super::super) class: u8,
    pub(in super::super) counts: Counts,
}

/// Everything that a ledger contains.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct LedgerImage {
    fields: Vec<u64>,
    pub(in super::super) modules: Vec<ImageModule>,
    pub(in super::super) sites: Vec<Site>,
    pub(in super::super) ends: Vec<End>,
    records: FxHashMap<(usize, RecordId), Box<[u64]>>,
    /// The words of those records. They do not overlap, so there are no more than the ledger has.
    kept_words: usize,
    /// Records that something refers to and that are not whole.
    pub(in super::super) damaged: u64,
}

impl LedgerImage {
    pub(in super::super) fn read<W: Words + ?Sized>(words: &W) -> Result<Self> {
        let reader = ImageReader::new(words)?;
        let mut image = Self {
            fields: (0..HEADER_WORDS).map(|at| words.word(at)).collect(),
            modules: reader.modules(),
            ..Self::default()
        };
        image.sites = reader.sites(image.field(Field::PeakEpoch));
        image.ends = reader.ends();
        let stacks = image.sites.iter().map(|site| site.stack).chain(image.ends.iter().map(|end| end.stack));
        let refused = RecordId(image.field(Field::ReasonStack) as u32);
        let stacks: Vec<RecordId> = stacks.chain([refused]).collect();
        let contexts: Vec<RecordId> = image.sites.iter().map(|site| site.context).collect();
        for (section, ids) in [(LedgerSection::Stacks, stacks), (LedgerSection::Contexts, contexts)] {
            for id in ids {
                image.keep_record(&reader, section, id);
            }
        }
        Ok(image)
    }

    fn keep_record<W: Words + ?Sized>(
        &mut self,
        reader: &ImageReader<'_, W>,
        section: LedgerSection,
        id: RecordId,
    ) {
        let key = (section as usize, id);
        if id == RecordId::NONE || self.records.contains_key(&key) {
            return;
        }
        let longest = match section {
            LedgerSection::Contexts => context_words::MAX_WORDS,
            _ => MAX_FRAMES,
        };
        let room = reader.words.count().saturating_sub(self.kept_words);
        let record = reader.record(section, id, longest.min(room)).unwrap_or_else(|| {
            self.damaged += 1;
            Box::default()
        });
        self.kept_words += record.len();
        self.records.insert(key, record);
    }

    pub(in super::super) fn field(&self, field: Field) -> u64 {
        self.fields.get(field as usize).copied().unwrap_or(0)
    }

    pub(in super::super) fn reason(&self) -> Reason {
        let number = self.field(Field::Reason);
        Reason::ALL.into_iter().find(|&reason| reason as u64 == number).unwrap_or(Reason::None)
    }

    /// Returns the addresses of a stack, leaf first.
    pub(in super::super) fn stack(&self, id: RecordId) -> &[u64] {
        self.records.get(&(LedgerSection::Stacks as usize, id)).map_or(&[], |record| record)
    }

    /// Returns the names and values of a context.
    pub(in super::super) fn context(&self, id: RecordId) -> Vec<(String, String)> {
        let record = self.records.get(&(LedgerSection::Contexts as usize, id));
        record.map_or_else(Vec::new, |record| context_words::parse(record))
    }
}

/// A section, checked against the words there are.
#[derive(Clone, Copy, Default)]
struct Extent {
    start: usize,
    used: usize,
}

struct ImageReader<'a, W: ?Sized> {
    words: &'a W,
    extents: [Extent; LedgerSection::ALL.len()],
}

impl<'a, W: Words + ?Sized> ImageReader<'a, W> {
    fn new(words: &'a W) -> Result<Self> {
        if words.count() < HEADER_WORDS {
            return Err(Error::new(ErrorKind::Truncated, "too short for a flamelet heap ledger"));
        }
        if words.word(Field::Magic as usize) != MAGIC {
            let message = "not a flamelet heap ledger, or from another version of flamelet";
            return Err(Error::new(ErrorKind::WrongFormat, message));
        }
        let mut extents = [Extent::default(); LedgerSection::ALL.len()];
        for (section, extent) in LedgerSection::ALL.into_iter().zip(&mut extents) {
            let [start, capacity, used] = [0, 1, 2].map(|at| words.word(section.entry() + at));
            let end = start.checked_add(capacity).filter(|&end| end <= u64::from(u32::MAX));
            if start < HEADER_WORDS as u64 || end.is_none() {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "a section of the heap ledger is outside the file",
                ));
            }
            // A file that was cut short has fewer words.
            let there = (words.count() as u64).saturating_sub(start);
            *extent = Extent { start: start as usize, used: used.min(capacity).min(there) as usize };
        }
        Ok(Self { words, extents })
    }

    /// Returns a record of at most `longest` words, if it is whole.
    fn record(&self, section: LedgerSection, id: RecordId, longest: usize) -> Option<Box<[u64]>> {
        let Extent { start, used } = self.extents[section as usize];
        let at = id.0 as usize;
        if at >= used {
            return None;
        }
        let head = self.words.word(start + at);
        let length = (head & 0xffff) as usize;
        if length >= used - at || length > longest {
            return None;
        }
        let words: Box<[u64]> = (0..length).map(|offset| self.words.word(start + at + 1 + offset)).collect();
        (records::head(records::hash(&words), length) == head).then_some(words)
    }

    /// Returns the modules. One thread after the other writes them, so the first gap is the end.
    fn modules(&self) -> Vec<ImageModule> {
        let mut modules: Vec<ImageModule> = Vec::new();
        let mut at = 1;
        while (at as usize) < MODULES_WORDS
            && let Some(record) = self.record(LedgerSection::Modules, RecordId(at), MODULES_WORDS)
        {
            if let Some(module) = module_words::parse(&record) {
                // What was mapped later replaces what it overlaps.
                modules.retain(|other| other.end <= module.start || module.end <= other.start);
                modules.push(module);
            }
            at = at.saturating_add(1 + record.len() as u32);
        }
        flamelet_profile::sort_rows_by_key(&mut modules, |module| module.start);
        modules
    }

    /// Returns the ids and places of the rows whose key is complete.
    fn rows(&self, section: LedgerSection) -> impl Iterator<Item = (RowId, usize)> {
        let (Extent { start, used }, width) = (self.extents[section as usize], section.row_words());
        let rows = (1..used / width).map(move |row| (RowId((row * width) as u32), start + row * width));
        rows.filter(|&(_, place)| self.words.word(place) != 0)
    }

    fn counts(&self, objects: usize, bytes: usize) -> Counts {
        // Counters that are read while they change may be a step apart.
        let count = |at: usize| (self.words.word(at) as i64).max(0);
        Counts { objects: count(objects), bytes: count(bytes) }
    }

    fn sites(&self, peak_epoch: u64) -> Vec<Site> {
        let read = |(id, row): (RowId, usize)| {
            let key = self.words.word(row + site::STACK_AND_CONTEXT);
            let live = self.counts(row + site::LIVE_OBJECTS, row + site::LIVE_BYTES);
            let has_changed = self.words.word(row + site::PEAK_EPOCH) == peak_epoch;
            let kept = self.counts(row + site::PEAK_OBJECTS, row + site::PEAK_BYTES);
            Site {
                id,
                stack: RecordId((key >> 32) as u32),
                context: RecordId(key as u32),
                size: self.words.word(row + site::SIZE),
                allocated: self.counts(row + site::ALLOCATED_OBJECTS, row + site::ALLOCATED_BYTES),
                live,
                peak: if has_changed { kept } else { live },
            }
        };
        self.rows(LedgerSection::Sites).map(read).collect()
    }

    fn ends(&self) -> Vec<End> {
        let read = |(id, row): (RowId, usize)| {
            let key = self.words.word(row + end::SITE_AND_STACK);
            End {
                id,
                site: RowId((key >> 32) as u32),
                stack: RecordId(key as u32),
                class: self.words.word(row + end::CLASS) as u8,
                counts: self.counts(row + end::OBJECTS, row + end::BYTES),
            }
        };
        self.rows(LedgerSection::Ends).map(read).collect()
    }
}

const _: () = assert!(site::PEAK_EPOCH < rows::SITE_WORDS && end::BYTES < rows::END_WORDS);

#[cfg(test)]
mod tests {
    use super::super::{Capacity, Ledger, SiteKey};
    use super::*;

    #[test]
    fn records_longer_than_any_that_is_written_are_damaged() {
        let ledger = Ledger::new(Capacity { stack_words: 100_000, sites: 64 }, None).expect("memory");
        for (number, length) in [MAX_FRAMES, MAX_FRAMES + 1, 60_000].into_iter().enumerate() {
            let stack = ledger.stack(&vec![7; length]);
            ledger.site(SiteKey { stack, context: RecordId::NONE, size: 1 + number }).expect("room");
        }
        let image = LedgerImage::read(ledger.words()).expect("sound");
        let lengths: Vec<usize> = image.sites.iter().map(|site| image.stack(site.stack).len()).collect();
        assert_eq!((lengths, image.damaged), (vec![MAX_FRAMES, 0, 0], 2));
    }
}
