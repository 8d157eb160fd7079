//! The ledger: everything that a heap profile is made of, as one block of words.
//!
//! ```text
//!  header │ modules ··· │ contexts ··· │ stacks ·········· │ sites ···· │ ends ····
//!         └── records of words, append only ──────────────┘└─ rows of counters ─┘
//! ```
//!
//! * A **stack** is a list of addresses; a **context** the thread's name and labels; a **module** a mapped
//!   file. Each is written once, as a record that carries its own hash.
//! * A **site** is a stack in a context with a size class, and counts what was allocated there and what is alive. An
//!   **end** is a site together with where its objects were freed and how old they became.
//!
//! The words lie in private memory. Optionally every change is copied to a file, the [`mirror`], which survives the
//! process however it ends; and the emergency file gets a copy of the used parts. All three have the same layout, so
//! one reader ([`image`]) makes profiles of any of them. A change that was cut short leaves a record whose hash is
//! wrong, or a row without a key, and both are skipped; the counters themselves are single words.
//!
//! No lock is taken and nothing is allocated: rows are claimed by adding to a counter and published by one store. So
//! a sample may be taken at any moment, even in the child of a `fork`.

pub(super) mod image;
mod mirror;
mod module_words;
mod reason;
mod records;
mod rows;

pub(super) use module_words::ImageModule;
pub(super) use reason::Reason;
pub(super) use records::RecordId;
pub(super) use rows::{EndKey, RowId, SiteKey};

use super::interval::Weight;
use crate::tables::{Index, memory};
use flamelet_unwind::Module;
use mirror::Mirror;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The deepest stack that is kept.
pub(super) const MAX_FRAMES: usize = 256;

/// The first word of every ledger: `FLHEAP` and the format's version.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"FLHEAP\x00\x02");

/// The words of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Field {
    Magic = 0,
    Pid,
    /// When the ledger was begun, in nanoseconds since 1970.
    Started,
    /// The mean distance between samples in bytes, as set now.
    Mean,
    /// Why the ledger was copied to the emergency file.
    Reason,
    /// The bytes that belong to the reason: the limit that was near, or the size that was refused.
    ReasonBytes,
    /// The stack that belongs to the reason: where the refused allocation was requested.
    ReasonStack,
    /// When that happened.
    ReasonTime,
    /// Samples that found no room in a table.
    Lost,
    /// Stacks that do not reach the thread's start.
    Truncated,
    /// Samples taken.
    Samples,
    /// Estimated live bytes now.
    LiveBytes,
    /// The highest estimate so far.
    PeakBytes,
    /// Counts new peaks.
    PeakEpoch,
    /// When the last peak was.
    PeakTime,
    /// Counts calls of `reset`.
    Resets,
    /// When the counters were last zero.
    CountedSince,
    /// When something was last counted.
    LastChange,
    /// Samples that are counted without their labels, or without their stack, because there was no room for those.
    Merged,
    /// Frees whose place and age found no room.
    LostEnds,
    /// The first of the section entries: offset, capacity and used, in words, for each of [`LedgerSection`].
    Sections = 32,
}

/// The parts of the ledger after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum LedgerSection {
    Modules = 0,
    Contexts,
    Stacks,
    Sites,
    Ends,
}

impl LedgerSection {
    pub(super) const ALL: [Self; 5] = [Self::Modules, Self::Contexts, Self::Stacks, Self::Sites, Self::Ends];

    /// Returns where its entry in the header starts.
    pub(super) const fn entry(self) -> usize {
        Field::Sections as usize + 3 * self as usize
    }
}

pub(super) const HEADER_WORDS: usize = 512;

/// How many words of the header are ever written.
const HEADER_USED: usize = LedgerSection::Ends.entry() + 3;

/// How many words every ledger has for modules.
const MODULES_WORDS: usize = 64 << 10;

/// The first record of the stacks has no frames: for samples whose stack found no room.
const EMPTY_STACK: RecordId = RecordId(1);

/// How much a ledger can hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) stack_words: usize,
    pub(super) sites: usize,
}

impl Capacity {
    /// Returns how many words a ledger has.
    pub(super) fn total_words(self) -> usize {
        HEADER_WORDS + LedgerSection::ALL.iter().map(|&section| self.words(section)).sum::<usize>()
    }

    /// Returns the length of a file with a ledger: a word more, which is never written. So a file that was truncated
    /// stays shorter, whatever is written to it.
    pub(super) fn file_length(self) -> u64 {
        file_length(self.total_words())
    }

    fn words(self, section: LedgerSection) -> usize {
        let words = match section {
            LedgerSection::Modules => MODULES_WORDS,
            LedgerSection::Contexts => 128 << 10,
            LedgerSection::Stacks => self.stack_words,
            LedgerSection::Sites => (self.sites + rows::reserve(self.sites)) * rows::SITE_WORDS,
            LedgerSection::Ends => 2 * self.sites * rows::END_WORDS,
        };
        words.next_multiple_of(HEADER_WORDS)
    }
}

const fn file_length(words: usize) -> u64 {
    (words as u64 + 1) * 8
}

/// See the module's introduction.
pub(super) struct Ledger {
    words: &'static [AtomicU64],
    mirror: Mirror,
    /// The monotonic clock when the ledger was begun.
    started: u64,
    modules: Index,
    contexts: Index,
    stacks: Index,
    /// Rows that only samples without labels may use, and the last of them only samples without a stack.
    reserve: usize,
    sites: Index,
    ends: Index,
}

impl Ledger {
    pub(super) fn new(capacity: Capacity, mirror: Option<&File>) -> io::Result<Self> {
        let sections = LedgerSection::ALL.map(|section| capacity.words(section));
        let total = capacity.total_words();
        let ledger = Self {
            words: memory::private_words(total)?,
            mirror: Mirror::none(),
            started: crate::clock::monotonic_nanos(),
            modules: Index::new(4 << 10)?,
            contexts: Index::new(16 << 10)?,
            // A stack has about 32 frames.
            stacks: Index::new(capacity.stack_words / 16)?,
            reserve: rows::reserve(capacity.sites),
            sites: Index::new(2 * capacity.sites)?,
            ends: Index::new(4 * capacity.sites)?,
        };
        let mut offset = HEADER_WORDS;
        for (section, words) in LedgerSection::ALL.into_iter().zip(sections) {
            ledger.store(section.entry(), offset as u64);
            ledger.store(section.entry() + 1, words as u64);
            // Id 0 stands for "none", so the first word of every section stays unused (a row for rows).
            ledger.store(section.entry() + 2, section.row_words() as u64);
            offset += words;
        }
        ledger.put(Field::Pid, u64::from(std::process::id()));
        let now = crate::clock::unix_nanos() as u64;
        ledger.put(Field::Started, now);
        ledger.put(Field::CountedSince, now);
        let empty = ledger.record(LedgerSection::Stacks, &ledger.stacks, &[]);
        debug_assert_eq!(empty, EMPTY_STACK, "the first stack");
        ledger.put(Field::Magic, MAGIC);
        if let Some(file) = mirror {
            ledger.mirror_to(file)?;
        }
        Ok(ledger)
    }

    /// All words, for the reader.
    pub(super) fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Changes only private memory from now on: in the child of a fork, the file is the parent's.
    pub(super) fn drop_mirror(&self) {
        self.mirror.forget();
    }

    /// Returns where a section starts and how much of it is used, in words.
    pub(super) fn extent(&self, section: LedgerSection) -> (usize, usize) {
        let word = |at: usize| self.load(section.entry() + at) as usize;
        (word(0), word(2).min(word(1)))
    }

    pub(super) fn get(&self, field: Field) -> u64 {
        self.load(field as usize)
    }

    pub(super) fn set(&self, field: Field, value: u64) {
        self.put(field, value);
        self.publish_header();
    }

    /// The same in memory only. A caller that changes more than one field publishes all of it in the end.
    fn put(&self, field: Field, value: u64) {
        self.store(field as usize, value);
    }

    /// Counts in memory only, until something is published.
    pub(super) fn count(&self, field: Field, more: u64) -> u64 {
        self.add(field as usize, more)
    }

    /// Returns a stack's id, or that of the empty stack when there is no room for it.
    pub(super) fn stack(&self, frames: &[u64]) -> RecordId {
        match self.record(LedgerSection::Stacks, &self.stacks, frames) {
            RecordId::NONE => EMPTY_STACK,
            id => id,
        }
    }

    /// Returns a context's id.
    pub(super) fn context(&self, words: &[u64]) -> RecordId {
        self.record(LedgerSection::Contexts, &self.contexts, words)
    }

    /// Returns a module's id.
    pub(super) fn module(&self, module: &Module) -> RecordId {
        self.record(LedgerSection::Modules, &self.modules, &module_words::words(module))
    }

    /// Counts an object that was allocated `now`, on the monotonic clock.
    pub(super) fn allocated(&self, site: RowId, weight: Weight, now: u64) {
        self.keep_peak(site);
        self.count_site(site, rows::Allocated, weight);
        let live = self.add(Field::LiveBytes as usize, weight.bytes).wrapping_add(weight.bytes);
        if (live as i64) > self.get(Field::PeakBytes) as i64 {
            self.put(Field::PeakBytes, live);
            self.put(Field::PeakTime, self.unix_time(now));
            self.add(Field::PeakEpoch as usize, 1);
        }
    }

    /// Publishes a site that has counted something `now`, on the monotonic clock (by which a reader of the file knows
    /// when the process ended), and how an object of it ended.
    pub(super) fn changed(&self, now: u64, site: RowId, end: Option<RowId>) {
        self.put(Field::LastChange, self.unix_time(now));
        let site = (LedgerSection::Sites, site);
        match end {
            Some(end) => self.publish_rows(now, [site, (LedgerSection::Ends, end)]),
            None => self.publish_rows(now, [site]),
        }
    }

    fn unix_time(&self, now: u64) -> u64 {
        self.get(Field::Started) + now.saturating_sub(self.started)
    }

    /// Counts an object that was freed.
    pub(super) fn freed(&self, site: RowId, weight: Weight) {
        if self.keep_peak(site) {
            // What the site kept belongs to a peak that a reader must know.
            self.mirror.header_is_due();
        }
        self.count_site(site, rows::Freed, weight);
        self.add(Field::LiveBytes as usize, weight.bytes.wrapping_neg());
    }

    /// Forgets all counts. What was allocated before must not be counted as freed later: holders of weights compare
    /// [`Field::Resets`].
    pub(super) fn reset(&self) {
        self.add(Field::Resets as usize, 1);
        for row in self.rows_of(LedgerSection::Sites) {
            self.clear_row(row, rows::SITE_KEY_WORDS, rows::SITE_WORDS);
        }
        for row in self.rows_of(LedgerSection::Ends) {
            self.clear_row(row, rows::END_KEY_WORDS, rows::END_WORDS);
        }
        for field in [
            Field::LiveBytes,
            Field::PeakBytes,
            Field::Lost,
            Field::Truncated,
            Field::Samples,
            Field::Merged,
            Field::LostEnds,
        ] {
            self.put(field, 0);
        }
        self.put(Field::CountedSince, crate::clock::unix_nanos() as u64);
        self.publish_all();
    }

    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }

    fn add(&self, word: usize, value: u64) -> u64 {
        self.words[word].fetch_add(value, Ordering::AcqRel)
    }
}
