//! Putting records in the order of their times.
//!
//! perf empties its buffers one after another, round by round: a record may stand behind younger ones of
//! another CPU, but never by more than a round. Records are held until the end of the round after theirs.

use flamelet_profile::Budget;

use super::blocks::{Blocks, RecordPlace};
use super::sparse::DumpPlace;

/// The most records that are held; beyond that the older half is let go.
const MAX_RECORDS: usize = 4 << 20;
/// They take this part of a budget at most, but for the few that are needed in any case.
const BUDGET_PART: usize = 4;
const FEWEST_RECORDS: usize = 4 << 10;
/// What a record is charged with, its share of what sorting takes included.
const RECORD: usize = size_of::<(u64, RecordPlace, Option<DumpPlace>)>() / 2 * 3 + size_of::<u64>();

/// Records that are held back.
pub(super) struct Rounds {
    budget: Budget,
    most: usize,
    /// How many were held at once.
    charged: usize,
    records: Vec<(u64, RecordPlace, Option<DumpPlace>)>,
    newest: u64,
    /// Everything up to here may go at the end of this round.
    due: u64,
}

impl Rounds {
    /// No records yet; those to come are charged to `budget`.
    pub(super) fn within(budget: &Budget) -> Self {
        let most = usize::try_from(budget.room()).unwrap_or(usize::MAX) / BUDGET_PART / RECORD;
        let most = most.clamp(FEWEST_RECORDS, MAX_RECORDS);
        Self { budget: budget.clone(), most, charged: 0, records: Vec::new(), newest: 0, due: 0 }
    }

    /// Holds a record back, and where its dump is, if that was left in the file.
    pub(super) fn push(
        &mut self,
        time: u64,
        record: RecordPlace,
        dump: Option<DumpPlace>,
        blocks: &mut Blocks,
    ) {
        blocks.hold(record.block);
        self.records.push((time, record, dump));
        if self.records.len() > self.charged {
            self.charged += 1;
            self.budget.has_room(RECORD);
        }
        self.newest = self.newest.max(time);
    }

    /// Whether so many are held that some must go.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() > self.most
    }

    /// Ends a round: hands out everything that cannot be overtaken any more.
    pub(super) fn end_round(&mut self, blocks: &mut Blocks, each: impl FnMut(&[u8], Option<DumpPlace>)) {
        let due = std::mem::replace(&mut self.due, self.newest);
        self.release(due, blocks, each);
    }

    /// Hands out the older half.
    pub(super) fn release_half(&mut self, blocks: &mut Blocks, each: impl FnMut(&[u8], Option<DumpPlace>)) {
        let mut times: Vec<u64> = self.records.iter().map(|record| record.0).collect();
        if times.is_empty() {
            return;
        }
        let middle = times.len() / 2;
        let due = *times.select_nth_unstable(middle).1;
        self.release(due, blocks, each);
    }

    /// Hands out everything.
    pub(super) fn release_all(&mut self, blocks: &mut Blocks, each: impl FnMut(&[u8], Option<DumpPlace>)) {
        self.release(u64::MAX, blocks, each);
    }

    fn release(&mut self, due: u64, blocks: &mut Blocks, mut each: impl FnMut(&[u8], Option<DumpPlace>)) {
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
        let (mut rounds, mut blocks) = (Rounds::within(&budget), Blocks::within(&budget));
        let mut got = Vec::new();
        let mut take = |record: &[u8], _: Option<DumpPlace>| got.push(record[0]);
        let push = |times: &[u8], rounds: &mut Rounds, blocks: &mut Blocks| {
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
