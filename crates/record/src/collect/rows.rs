//! Samples as they are kept: one row for each stack, thread and meaning, and the moments of each row.

use rustc_hash::FxHashMap;

use super::stacks::StackNumber;
use super::threads::ThreadRow;

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// CPU time.
    Cpu,
    /// Time in which the thread did not run.
    OffCpu {
        /// It could have run, but others did.
        is_preempted: bool,
    },
    /// Weights of stacks from which a system call was made.
    Syscall {
        number: i64,
        /// Of every so many calls, not of so many a second.
        is_regular: bool,
    },
    /// The event at this place of the options.
    Named(usize),
}

/// What makes two samples the same row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) stack: StackNumber,
    pub(crate) thread: ThreadRow,
    pub(crate) meaning: Meaning,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) key: RowKey,
    /// How many times.
    pub(crate) count: u64,
    /// Nanoseconds, or the sum of the periods.
    pub(crate) amount: u64,
}

/// One moment of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) time: u64,
    pub(crate) amount: u64,
    pub(crate) row: u32,
}

/// All rows and moments.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    index: FxHashMap<RowKey, u32>,
    pub(crate) moments: Vec<Moment>,
}

impl Rows {
    /// Adds to a row, which begins if it is new. Returns its place.
    pub(crate) fn add(&mut self, key: RowKey, amount: u64) -> u32 {
        let at = *self.index.entry(key).or_insert_with(|| {
            self.rows.push(Row { key, count: 0, amount: 0 });
            (self.rows.len() - 1) as u32
        });
        let row = &mut self.rows[at as usize];
        row.count += 1;
        row.amount = row.amount.saturating_add(amount);
        at
    }

    /// Adds to a row and keeps the moment.
    pub(crate) fn add_at(&mut self, key: RowKey, amount: u64, time: u64) {
        let row = self.add(key, amount);
        self.moments.push(Moment { time, amount, row });
    }
}
