//! Limits on the memory and work that reading a file may take, whatever the file says.
//!
//! One [`Budget`] covers a whole read: unpacking, parsing and building the profile charge it for everything they
//! keep, and loops whose length the file controls charge it for their steps. Once it has run out, it stays so: tables
//! charged to it take nothing more, input sources end with its error, and finishing a profile fails. So memory stays
//! bounded even where a reader does not check after each step.
//!
//! Charges are estimates that err on the high side: a row includes its share of the indexes used to look it up while
//! the profile is built, and of the room they take while they grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::{Error, ErrorKind, Result};

/// How many steps of work a byte of memory allows.
const STEPS_PER_BYTE: u64 = 2;
/// How many bytes of text one step of work covers.
const BYTES_PER_STEP: usize = 16;
/// What an allocation costs in addition to its bytes.
pub const ALLOCATION: usize = 32;

/// How much reading a file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Steps of work: iterations of loops whose length the file controls beyond its own size.
    pub work: u64,
}

impl Limits {
    /// For a command run by a user: 1 GiB.
    pub const PERSON: Self = Self::of_memory(1 << 30);
    /// For reading inside a service, which needs its memory for other things: 128 MiB.
    pub const SERVICE: Self = Self::of_memory(128 << 20);

    /// No limits, for trusted input.
    pub const NONE: Self = Self::of_memory(u64::MAX);

    /// Limits of this many bytes of memory, and of work in proportion.
    pub const fn of_memory(bytes: u64) -> Self {
        Self { memory: bytes, work: bytes.saturating_mul(STEPS_PER_BYTE) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::PERSON
    }
}

/// What is left of some [`Limits`]. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limits: Limits,
    memory: AtomicU64,
    work: AtomicU64,
    /// What ran out first; one of the constants below.
    spent: AtomicU8,
}

const NOTHING: u8 = 0;
const MEMORY: u8 = 1;
const WORK: u8 = 2;
const IDS: u8 = 3;

impl Budget {
    /// Creates an unspent budget.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Account {
            limits,
            memory: AtomicU64::new(0),
            work: AtomicU64::new(0),
            spent: AtomicU8::new(NOTHING),
        }))
    }

    /// Charges memory that is kept; fails when there is no room for it.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        if self.has_room(bytes) { Ok(()) } else { self.check() }
    }

    /// Like [`Budget::charge`], for callers that leave out what does not fit: [`Budget::check`] reports it later.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        let before = self.0.memory.fetch_add(bytes as u64, Ordering::Relaxed);
        let fits = before.saturating_add(bytes as u64) <= self.0.limits.memory;
        self.goes_on(fits, MEMORY)
    }

    /// Appends to a table charged to this budget, and returns whether there was room.
    pub fn push<T>(&self, table: &mut Vec<T>, row: T) -> bool {
        let has_room = self.has_room(size_of::<T>());
        if has_room {
            table.push(row);
        }
        has_room
    }

    /// Gives back what was charged for something that has been freed.
    pub fn refund(&self, bytes: usize) {
        self.0.memory.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Charges memory until the returned [`Loan`] is dropped.
    pub fn lend(&self, bytes: usize) -> Result<Loan> {
        let mut loan = Loan { budget: self.clone(), bytes: 0 };
        loan.add(bytes)?;
        Ok(loan)
    }

    /// Charges steps of work; fails when there are too many.
    pub fn work(&self, steps: usize) -> Result<()> {
        if self.can_work(steps) { Ok(()) } else { self.check() }
    }

    /// Like [`Budget::work`], for callers that leave out what would be too much: [`Budget::check`] reports it later.
    #[inline]
    pub fn can_work(&self, steps: usize) -> bool {
        let before = self.0.work.fetch_add(steps as u64, Ordering::Relaxed);
        let fits = before.saturating_add(steps as u64) <= self.0.limits.work;
        self.goes_on(fits, WORK)
    }

    /// Returns whether a table may grow to this many rows: row numbers are 32 bits wide.
    #[inline]
    pub fn has_ids(&self, rows: usize) -> bool {
        self.goes_on(rows < u32::MAX as usize, IDS)
    }

    /// Charges the work of looking through this many bytes of text.
    #[inline]
    pub fn can_look_through(&self, bytes: usize) -> bool {
        self.can_work(bytes / BYTES_PER_STEP + 1)
    }

    /// Returns how much memory is charged.
    pub fn used(&self) -> usize {
        usize::try_from(self.0.memory.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Returns how much memory may still be charged.
    pub fn room(&self) -> u64 {
        self.0.limits.memory.saturating_sub(self.0.memory.load(Ordering::Relaxed))
    }

    #[inline]
    fn goes_on(&self, fits: bool, what: u8) -> bool {
        if !fits {
            _ = self.0.spent.compare_exchange(NOTHING, what, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.0.spent.load(Ordering::Relaxed) == NOTHING
    }

    /// Fails if there was no room for something, or too much work.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.0.spent.load(Ordering::Relaxed) {
            NOTHING => Ok(()),
            what => Err(self.error(what)),
        }
    }

    #[cold]
    fn error(&self, what: u8) -> Error {
        let Limits { memory, work } = self.0.limits;
        let (kind, message) = match what {
            MEMORY => {
                let memory = size_text(memory);
                (ErrorKind::OutOfMemory, format!("needs more than the allowed {memory} of memory"))
            }
            WORK => (ErrorKind::OutOfWork, format!("needs more than the allowed {work} steps of work")),
            _ => (
                ErrorKind::TooLarge,
                "has a table with more than 2^32 rows, which flamelet does not support".into(),
            ),
        };
        Error::new(kind, message)
    }
}

/// Formats a size: `1 GiB`, `1.5 MiB`, `100 bytes`.
fn size_text(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|&(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => {
            let tenths = bytes as f64 / (1u64 << shift) as f64 * 10.0;
            format!("{} {unit}", tenths.round() / 10.0)
        }
        None => format!("{bytes} bytes"),
    }
}

/// Memory that is charged to a [`Budget`] until this is dropped.
#[derive(Debug)]
pub struct Loan {
    budget: Budget,
    bytes: usize,
}

impl Loan {
    /// Charges more memory to this loan.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.budget.charge(bytes)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.budget.refund(self.bytes);
    }
}

/// Memory charged in advance, for tables that grow by a few bytes at a time: charging each row would take longer than
/// reading it.
#[derive(Debug)]
pub(crate) struct Advance {
    budget: Budget,
    left: usize,
}

impl Advance {
    /// How much is charged at a time.
    const STEP: usize = 4 << 10;

    pub(crate) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), left: 0 }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Charges memory that is kept.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.left {
            self.extend(bytes)?;
        }
        self.left -= bytes;
        Ok(())
    }

    #[cold]
    fn extend(&mut self, bytes: usize) -> Result<()> {
        let more = bytes.max(Self::STEP);
        self.budget.charge(more)?;
        self.left += more;
        Ok(())
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        self.budget.refund(self.left);
    }
}

/// What an entry of a hash table costs if its key and value have this size: tables are at least 7/16 full, and while
/// one grows, the old one is still there.
pub const fn hash_entry(size: usize) -> usize {
    (size + 1) * 7 / 2
}

/// Parses a size in bytes as users write it: `2GiB`, `512M`, `1.5g`; a number without a unit is in GiB.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match &*unit.trim().to_ascii_lowercase() {
        "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "" | "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes >= 1.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_has_run_out_stays_so() {
        let budget = Budget::new(Limits::of_memory(100));
        budget.charge(60).unwrap();
        assert!(budget.lend(30).is_ok(), "and it is given back at once");
        budget.charge(40).unwrap();
        assert_eq!(budget.charge(1).unwrap_err().kind(), ErrorKind::OutOfMemory);
        budget.refund(100);
        assert!(!budget.has_room(1) && !budget.can_work(1));
        let error = budget.check().unwrap_err();
        assert_eq!(error.to_string(), "needs more than the allowed 100 bytes of memory");
    }

    #[test]
    fn an_advance_charges_what_was_taken() {
        let budget = Budget::new(Limits::of_memory(10_000));
        let mut advance = Advance::new(&budget);
        (0..5000).for_each(|_| advance.charge(1).unwrap());
        assert!((5000..=5000 + Advance::STEP).contains(&budget.used()));
        drop(advance);
        assert_eq!(budget.used(), 5000);
        assert_eq!(Advance::new(&budget).charge(5001).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn work_has_its_own_error() {
        let budget = Budget::new(Limits { memory: 1 << 30, work: 10 });
        budget.work(10).unwrap();
        assert_eq!(budget.work(1).unwrap_err().kind(), ErrorKind::OutOfWork);
        assert_eq!(budget.charge(1).unwrap_err().kind(), ErrorKind::OutOfWork);
    }

    #[test]
    fn sizes_as_people_write_them() {
        let known =
            [("2GiB", 2 << 30), ("512M", 512 << 20), ("1.5g", 3 << 29), ("4", 4 << 30), ("64 KB", 64 << 10)];
        for (text, bytes) in known {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "0", "-1G", "1x", "1e3", "nan", "99999999T"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!([1 << 30, 3 << 19, 100].map(size_text), ["1 GiB", "1.5 MiB", "100 bytes"]);
    }
}
