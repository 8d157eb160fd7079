//! Sorts records by time.
//!
//! perf empties its buffers one after another, round by round: a record may come after younger ones from another CPU,
//! but never by more than a round. Records are held until the end of the round after theirs.

use flamelet_profile::Budget;

use super::blocks::{RecordBlocks, RecordPlace};
use super::sparse::DumpPlace;

/// The most records that are held; beyond that the older half is released.
const MAX_RECORDS: usize = 4 << 20;
/// Records take at most this fraction of a budget, apart from the few that are always needed.
const BUDGET_PART: usize = 4;
const FEWEST_RECORDS: usize = 4 << 10;
/// What a record costs, including its share of the memory for sorting.
const RECORD: usize = size_of::<(u64, RecordPlace, Option<DumpPlace>)>() / 2 * 3 + size_of::<u64>();

/// Records that are held back.
pub(super) struct Rounds {
    budget: Budget,
    most: usize,
    /// The most records held at once.
    charged: usize,
    records: Vec<(u64, RecordPlace, Option<DumpPlace>)>,
    newest: u64,
    /// Records up to this time may be released at the end of this round.
    due: u64,
}

impl Rounds {
    /// Creates an empty set of records, which are charged to `budget` as they are added.
    pub(super) fn within(budget: &Budget) -> Self {
        let most = usize::try_from(budget.room()).unwrap_or(usize::MAX) / BUDGET_PART / RECORD;
        let most = most.clamp(FEWEST_RECORDS, MAX_RECORDS);
        Self { budget: budget.clone(), most, charged: 0, records: Vec::new(), newest: 0, due: 0 }
    }

    /// Holds back a record, and the place of its dump if that was left in the file.
    pub(super) fn push(
        &mut self,
        time: u64,
        record: RecordPlace,
        dump: Option<DumpPlace>,
        blocks: &mut RecordBlocks,
    ) {
        blocks.hold(record.block);
        self.records.push((time, record, dump));
        if self.records.len() > self.charged {
            self.charged += 1;
            self.budget.has_room(RECORD);
        }
        self.newest = self.newest.max(time);
    }

    /// Returns whether so many records are held that some must be released.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() > self.most
    }

    /// Ends a round: releases everything that no later record can precede.
    pub(super) fn end_round(
        &mut self,
        blocks: &mut RecordBlocks,
        each: impl FnMut(&[u8], Option<DumpPlace>),
    ) {
        let due = std::mem::replace(&mut self.due, self.newest);
        self.release(due, blocks, each);
    }

    /// Releases the older half.
    pub(super) fn release_half(
        &mut self,
        blocks: &mut RecordBlocks,
        each: impl FnMut(&[u8], Option<DumpPlace>),
    ) {
        let mut times: Vec<u64> = self.records.iter().map(|record| record.0).collect();
        if times.is_empty() {
            return;
        }
        let middle = times.len() / 2;
        let due = *times.select_nth_unstable(middle).1;
        self.release(due, blocks, each);
    }

    /// Releases everything.
    pub(super) fn release_all(
        &mut self,
        blocks: &mut RecordBlocks,
        each: impl FnMut(&[u8], Option<DumpPlace>),
    ) {
        self.release(u64::MAX, blocks, each);
    }

    fn release(
        &mut self,
        due: u64,
        blocks: &mut RecordBlocks,
        mut each: impl FnMut(&[u8], Option<DumpPlace>),
    ) {
        self.records.sort_by_key(|record| record.0);
        let count = self.records.partition_point(|record| record.0 <= due);
        for (_, place, dump) in self.records.drain(..count) {
            each(blocks.record(place), dump);
            blocks.let_go(place.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_in_the_order_of_their_times() {
        let budget = Budget::new(flamelet_profile::Limits::default());
        let (mut rounds, mut blocks) = (Rounds::within(&budget), RecordBlocks::within(&budget));
        let mut got = Vec::new();
        let mut take = |record: &[u8], _: Option<DumpPlace>| got.push(record[0]);
        let push = |times: &[u8], rounds: &mut Rounds, blocks: &mut RecordBlocks| {
            for &time in times {
                let place = blocks.store(&[time]);
                rounds.push(u64::from(time), place, None, blocks);
            }
        };
        push(&[5, 7, 3], &mut rounds, &mut blocks);
        rounds.end_round(&mut blocks, &mut take);
        push(&[6, 9], &mut rounds, &mut blocks);
        rounds.end_round(&mut blocks, &mut take);
        push(&[8], &mut rounds, &mut blocks);
        rounds.release_all(&mut blocks, &mut take);
        assert_eq!(got, [3, 5, 6, 7, 8, 9]);
    }
}
