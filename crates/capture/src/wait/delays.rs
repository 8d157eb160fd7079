//! The table of waits: how often and how long, by stack.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::labels;
use crate::tables::{ContextWords, Index, Records, context_words, memory, mix};

/// The deepest stack that is kept.
pub(super) const MAX_FRAMES: usize = 128;

const STACK_WORDS: usize = 1 << 19;
const STACKS: usize = 16 << 10;
const CONTEXT_WORDS: usize = 128 << 10;
const CONTEXTS: usize = 8 << 10;
const ROWS: usize = 16 << 10;
/// Rows that only waits without labels may take, so that a storm of labels does not hide new stacks.
const RESERVE: usize = ROWS / 4;

/// The words of a row: two of the key, then the counters.
const ROW_WORDS: usize = 4;
const COUNT: usize = 2;
const NANOS: usize = 3;

/// Counts are kept in units of 1/65536, because a sampled wait stands for a fraction more than a whole number.
const ONE: u64 = 1 << 16;

/// Counts waits by stack, by what the thread was working on and by the stack that ended the wait. Hooks add to it
/// without a lock and without allocating. When it is full, waits are counted without their labels, then not at all.
pub(crate) struct Delays {
    stacks: Records,
    contexts: Records,
    rows: &'static [AtomicU64],
    used: AtomicU64,
    index: Index,
    lost: AtomicU64,
}

/// A stack in a [`Delays`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackNumber(u32);

impl StackNumber {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn from_raw(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }
}

/// A set of labels in a [`Delays`]. Unlike the number of a `LabelSet`, it is valid forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextNumber(u32);

impl ContextNumber {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn from_raw(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }
}

/// What a sampled wait stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weight {
    count: u64,
    nanos: u64,
}

impl Weight {
    /// A wait of `nanos` that stands for itself and for `times - 1` others that were not looked at.
    pub(crate) fn times(nanos: u64, times: u64) -> Self {
        Self { count: ONE.saturating_mul(times), nanos: nanos.saturating_mul(times) }
    }

    /// A wait of `nanos` that is sampled with the chance `nanos` / `rate`, as in Go's block profile: a shorter wait
    /// than the rate stands for as many that add up to it.
    pub(crate) fn by_time(nanos: u64, rate: u64) -> Self {
        let nanos = nanos.max(1);
        if nanos >= rate {
            return Self::times(nanos, 1);
        }
        let count = u128::from(ONE) * u128::from(rate) / u128::from(nanos);
        Self { count: u64::try_from(count).unwrap_or(u64::MAX), nanos: rate }
    }
}

impl Delays {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            stacks: Records::new(STACK_WORDS, STACKS)?,
            contexts: Records::new(CONTEXT_WORDS, CONTEXTS)?,
            rows: memory::private_words((ROWS + 1) * ROW_WORDS)?,
            used: AtomicU64::new(0),
            index: Index::new(2 * ROWS)?,
            lost: AtomicU64::new(0),
        })
    }

    /// Returns the table in a cell, which is made if there is none yet; `None` if there is no memory for it.
    pub(crate) fn in_cell(cell: &OnceLock<Option<Self>>) -> Option<&Self> {
        if cell.get().is_none() {
            // Not `get_or_init`: if one thread is inside it while another forks, the child waits forever.
            let _ = cell.set(Self::new().ok());
        }
        cell.get()?.as_ref()
    }

    pub(crate) fn stack(&self, frames: &[u64]) -> StackNumber {
        StackNumber(self.stacks.number(&frames[..frames.len().min(MAX_FRAMES)]))
    }

    /// Returns the frames of a stack, leaf first.
    pub(crate) fn frames(&self, stack: StackNumber) -> Vec<u64> {
        self.stacks.get(stack.0)
    }

    /// Counts a wait of this thread at `stack`, which `other` has ended.
    pub(crate) fn add(&self, stack: StackNumber, other: StackNumber, weight: Weight) {
        let labels = labels::current_id();
        let context = self.contexts.number(ContextWords::of_this_thread(labels).words());
        self.count(self.row(stack, other, context), weight);
    }

    /// Counts a wait of something that is no thread, with labels of its own.
    pub(crate) fn add_labelled(
        &self,
        stack: StackNumber,
        other: StackNumber,
        labels: &labels::LabelSet,
        weight: Weight,
    ) {
        self.add_in_context(stack, other, self.context(labels), weight);
    }

    /// Returns the number of these labels.
    pub(crate) fn context(&self, labels: &labels::LabelSet) -> ContextNumber {
        let mut words = ContextWords::new();
        words.push_labels(labels);
        ContextNumber(self.contexts.number(words.words()))
    }

    /// Like [`Self::add_labelled`], with labels whose number is known.
    pub(crate) fn add_in_context(
        &self,
        stack: StackNumber,
        other: StackNumber,
        context: ContextNumber,
        weight: Weight,
    ) {
        self.count(self.row(stack, other, context.0), weight);
    }

    fn count(&self, row: Option<usize>, weight: Weight) {
        let Some(row) = row else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.rows[row * ROW_WORDS + COUNT].fetch_add(weight.count, Ordering::Relaxed);
        self.rows[row * ROW_WORDS + NANOS].fetch_add(weight.nanos, Ordering::Relaxed);
    }

    /// Returns the row for this key, without its context if there is no room for another one.
    fn row(&self, stack: StackNumber, other: StackNumber, context: u32) -> Option<usize> {
        let with_context = self.find_row(stack, other, context, RESERVE);
        with_context.or_else(|| self.find_row(stack, other, 0, 0))
    }

    fn find_row(&self, stack: StackNumber, other: StackNumber, context: u32, spared: usize) -> Option<usize> {
        let key = [u64::from(stack.0) << 32 | u64::from(other.0), u64::from(context) << 1 | 1];
        let is_same = |row: u32| {
            let at = row as usize * ROW_WORDS;
            self.rows[at + 1].load(Ordering::Acquire) == key[1]
                && self.rows[at].load(Ordering::Relaxed) == key[0]
        };
        let make = || {
            let most = (ROWS - spared) as u64;
            if self.used.load(Ordering::Relaxed) >= most {
                return None;
            }
            let row = self.used.fetch_add(1, Ordering::Relaxed) + 1;
            if row > most {
                return None;
            }
            let at = row as usize * ROW_WORDS;
            self.rows[at].store(key[0], Ordering::Relaxed);
            self.rows[at + 1].store(key[1], Ordering::Release);
            Some(row as u32)
        };
        self.index.find_or_insert(mix(key[0] ^ mix(key[1])), is_same, make).map(|row| row as usize)
    }

    pub(crate) fn snapshot(&self) -> Rows {
        let used = (self.used.load(Ordering::Acquire) as usize).min(ROWS);
        let mut rows = Rows { rows: FxHashMap::default(), lost: self.lost.load(Ordering::Relaxed) };
        for number in 1..=used {
            let word = |at: usize| self.rows[number * ROW_WORDS + at].load(Ordering::Acquire);
            let (context, key) = (word(1), word(0));
            if context == 0 {
                continue;
            }
            let row = Row {
                stack: self.stacks.get((key >> 32) as u32),
                other: self.stacks.get(key as u32),
                labels: context_words::parse(&self.contexts.get((context >> 1) as u32)),
                count: word(COUNT),
                nanos: word(NANOS),
            };
            rows.rows.insert(number as u32, row);
        }
        rows
    }
}

/// A copy of a table of waits.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: FxHashMap<u32, Row>,
    lost: u64,
}

/// The waits of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where it waited: addresses, leaf first.
    pub stack: Vec<u64>,
    /// Where another thread ended the wait; empty if unknown.
    pub other: Vec<u64>,
    /// The thread's name and labels.
    pub labels: Vec<(String, String)>,
    count: u64,
    nanos: u64,
}

impl Row {
    /// Returns how many waits it stands for.
    pub fn count(&self) -> i64 {
        i64::try_from(self.count.saturating_add(ONE / 2) / ONE).unwrap_or(i64::MAX)
    }

    /// Returns for how long they lasted together.
    pub fn nanos(&self) -> i64 {
        i64::try_from(self.nanos).unwrap_or(i64::MAX)
    }
}

impl Rows {
    /// Returns what was added since `before`, an earlier copy of the same table.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (number, row) in &mut self.rows {
            if let Some(old) = before.rows.get(number) {
                row.count = row.count.saturating_sub(old.count);
                row.nanos = row.nanos.saturating_sub(old.nanos);
            }
        }
        self.lost = self.lost.saturating_sub(before.lost);
        self.rows.retain(|_, row| row.count > 0);
        self
    }

    /// Returns those rows that `keep` accepts.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&Row) -> bool) -> Self {
        let rows = self.rows.iter().filter(|(_, row)| keep(row));
        Self { rows: rows.map(|(&number, row)| (number, row.clone())).collect(), lost: self.lost }
    }

    /// Returns the rows.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Returns how many sampled waits found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::LabelSet;

    #[test]
    fn waits_are_counted_by_stack_labels_and_who_ended_them() {
        let delays = Delays::new().expect("memory");
        let (waiter, releaser) = (delays.stack(&[1, 2]), delays.stack(&[3]));
        let labels = LabelSet::new([("route", "/a")]);
        let weight = Weight::times(500, 1);
        delays.add_labelled(waiter, releaser, &labels, weight);
        delays.add_labelled(waiter, releaser, &labels, weight);
        delays.add_labelled(waiter, StackNumber::NONE, &LabelSet::EMPTY, weight);
        let before = delays.snapshot();
        let mut rows: Vec<&Row> = before.iter().collect();
        rows.sort_by_key(|row| row.count());
        assert_eq!((rows[0].count(), rows[0].nanos(), rows[0].other.len()), (1, 500, 0));
        assert_eq!((rows[1].count(), rows[1].nanos(), &rows[1].other[..]), (2, 1000, &[3][..]));
        assert_eq!(
            (&rows[1].stack[..], &rows[1].labels[..]),
            (&[1, 2][..], &[("route".into(), "/a".into())][..])
        );
        delays.add_labelled(waiter, releaser, &labels, weight);
        let since = delays.snapshot().since(&before);
        assert_eq!(since.iter().map(|row| (row.count(), row.nanos())).collect::<Vec<_>>(), [(1, 500)]);
    }

    #[test]
    fn a_short_wait_stands_for_many_and_a_long_one_for_itself() {
        assert_eq!(Weight::by_time(5_000, 1_000), Weight { count: ONE, nanos: 5_000 });
        assert_eq!(Weight::by_time(250, 1_000), Weight { count: 4 * ONE, nanos: 1_000 });
        assert_eq!(Weight::by_time(0, 1_000), Weight { count: 1_000 * ONE, nanos: 1_000 });
    }

    #[test]
    fn a_storm_of_labels_leaves_room_for_new_stacks_and_is_bounded() {
        let delays = Delays::new().expect("memory");
        let storm = delays.stack(&[1]);
        let weight = Weight::times(1, 1);
        for request in 0..2 * ROWS {
            let context = delays.contexts.number(&[8, request as u64]);
            delays.count(delays.row(storm, StackNumber::NONE, context), weight);
        }
        let quiet = delays.stack(&[2]);
        delays.add_labelled(quiet, StackNumber::NONE, &LabelSet::EMPTY, weight);
        let rows = delays.snapshot();
        assert!(rows.iter().any(|row| row.stack == [2]), "it is seen");
        let total: i64 = rows.iter().map(Row::count).sum();
        assert_eq!((total as usize, rows.lost()), (2 * ROWS + 1, 0), "all are counted");
    }
}
