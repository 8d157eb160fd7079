//! Samples as they are stored: one row for each stack, thread and kind, and the times of each row.

use rustc_hash::FxHashMap;

use super::arguments::ArgumentsId;
use super::stack_table::StackNumber;
use super::threads::ThreadRow;

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    /// CPU time.
    Cpu,
    /// Time in which the thread did not run.
    OffCpu {
        /// It was ready to run, but other threads ran instead.
        is_preempted: bool,
    },
    /// Weights of stacks from which a system call was made.
    Syscall {
        number: i64,
        arguments: Option<ArgumentsId>,
        /// Sampled every n-th call, not whenever there is room for a stack.
        is_regular: bool,
    },
    /// The event at this index of the options.
    Named(usize),
}

/// Two samples with the same key share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) stack: StackNumber,
    pub(crate) thread: ThreadRow,
    pub(crate) meaning: Meaning,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) key: RowKey,
    /// The number of samples.
    pub(crate) count: u64,
    /// Nanoseconds, or the sum of the periods.
    pub(crate) amount: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RowMoment {
    pub(crate) time: u64,
    pub(crate) amount: u64,
    pub(crate) row: u32,
}

/// All rows and moments. There are only as many rows as the program has stacks, but a moment for every sample, so the
/// number of moments is limited. At the limit the timeline ends, complete up to that time, and the rows continue.
pub(crate) struct SampleRows {
    pub(crate) rows: Vec<SampleRow>,
    index: FxHashMap<RowKey, u32>,
    pub(crate) moments: Vec<RowMoment>,
    max_moments: usize,
    /// When the first moment arrived for which there was no room.
    pub(crate) timeline_end: Option<u64>,
}

impl SampleRows {
    pub(crate) fn new(max_moments: usize) -> Self {
        Self {
            rows: Vec::new(),
            index: FxHashMap::default(),
            moments: Vec::new(),
            max_moments,
            timeline_end: None,
        }
    }

    /// Adds to a row, creating it if it is new. Returns its index.
    pub(crate) fn add(&mut self, key: RowKey, amount: u64) -> u32 {
        let at = *self.index.entry(key).or_insert_with(|| {
            self.rows.push(SampleRow { key, count: 0, amount: 0 });
            (self.rows.len() - 1) as u32
        });
        let row = &mut self.rows[at as usize];
        row.count += 1;
        row.amount = row.amount.saturating_add(amount);
        at
    }

    /// Adds to a row and stores the moment.
    pub(crate) fn add_at(&mut self, key: RowKey, amount: u64, time: u64) {
        let row = self.add(key, amount);
        if self.has_room(time) {
            self.moments.push(RowMoment { time, amount, row });
        }
    }

    /// Adds nanoseconds that have just passed to a row and stores when. If the span began before the end of the
    /// timeline, the part before that end is stored: at most one for each thread.
    pub(crate) fn add_span(&mut self, key: RowKey, since: u64, until: u64) {
        let row = self.add(key, until.saturating_sub(since));
        let has_room = self.has_room(until);
        let until = self.timeline_end.map_or(until, |end| end.min(until));
        if has_room || since < until {
            self.moments.push(RowMoment { time: since, amount: until.saturating_sub(since), row });
        }
    }

    /// Returns whether there is room for a moment that is reported now.
    fn has_room(&mut self, now: u64) -> bool {
        if self.timeline_end.is_none() && self.moments.len() >= self.max_moments {
            self.timeline_end = Some(now);
        }
        self.timeline_end.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(thread: ThreadRow, meaning: Meaning) -> RowKey {
        RowKey { stack: StackNumber(0), thread, meaning }
    }

    fn moments(rows: &SampleRows) -> Vec<(u64, u64)> {
        rows.moments.iter().map(|moment| (moment.time, moment.amount)).collect()
    }

    #[test]
    fn totals_go_on_when_the_timeline_is_full() {
        let mut rows = SampleRows::new(3);
        for time in 10..15 {
            rows.add_at(key(0, Meaning::Cpu), 7, time);
        }
        assert_eq!(moments(&rows), [(10, 7), (11, 7), (12, 7)]);
        assert_eq!(rows.timeline_end, Some(13));
        assert_eq!((rows.rows[0].count, rows.rows[0].amount), (5, 35));
    }

    #[test]
    fn a_full_timeline_has_what_had_begun_by_its_end() {
        let blocked = Meaning::OffCpu { is_preempted: false };
        let mut rows = SampleRows::new(2);
        rows.add_at(key(0, Meaning::Cpu), 1, 10);
        rows.add_at(key(0, Meaning::Cpu), 1, 20);
        rows.add_at(key(0, Meaning::Cpu), 1, 30);
        rows.add_span(key(1, blocked), 5, 40);
        rows.add_span(key(1, blocked), 41, 45);
        assert_eq!(moments(&rows), [(10, 1), (20, 1), (5, 25)]);
        assert_eq!(rows.rows[1].amount, 35 + 4);
    }
}
