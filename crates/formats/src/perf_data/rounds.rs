//! Putting records in the order of their times.
//!
//! perf empties its buffers one after another, round by round: a record may stand behind younger ones of
//! another CPU, but never by more than a round. Records are held until the end of the round after theirs.

/// The most bytes that are held; beyond that the older half is let go.
const MAX_HELD: usize = 128 << 20;

/// Records that are held back.
#[derive(Default)]
pub(super) struct Rounds {
    bytes: Vec<u8>,
    /// Time, start and length of each record.
    records: Vec<(u64, usize, usize)>,
    newest: u64,
    /// Everything up to here may go at the end of this round.
    due: u64,
}

impl Rounds {
    /// Holds a record back.
    pub(super) fn push(&mut self, time: u64, record: &[u8]) {
        self.records.push((time, self.bytes.len(), record.len()));
        self.bytes.extend_from_slice(record);
        self.newest = self.newest.max(time);
    }

    /// Whether so much is held that some must go.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > MAX_HELD
    }

    /// Ends a round: hands out everything that cannot be overtaken any more.
    pub(super) fn end_round(&mut self, each: impl FnMut(&[u8])) {
        let due = std::mem::replace(&mut self.due, self.newest);
        self.release(due, each);
    }

    /// Hands out the older half.
    pub(super) fn release_half(&mut self, each: impl FnMut(&[u8])) {
        let mut times: Vec<u64> = self.records.iter().map(|record| record.0).collect();
        let middle = times.len() / 2;
        let due = *times.select_nth_unstable(middle).1;
        self.release(due, each);
    }

    /// Hands out everything.
    pub(super) fn release_all(&mut self, each: impl FnMut(&[u8])) {
        self.release(u64::MAX, each);
    }

    fn release(&mut self, due: u64, mut each: impl FnMut(&[u8])) {
        self.records.sort_by_key(|record| record.0);
        let count = self.records.partition_point(|record| record.0 <= due);
        for &(_, start, length) in &self.records[..count] {
            each(&self.bytes[start..start + length]);
        }
        let mut kept = Vec::new();
        self.records.drain(..count);
        for record in &mut self.records {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[record.1..record.1 + record.2]);
            record.1 = start;
        }
        self.bytes = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_in_the_order_of_their_times() {
        let mut rounds = Rounds::default();
        let mut got = Vec::new();
        let mut take = |record: &[u8]| got.push(record[0]);
        [(5, 5), (7, 7), (3, 3)].iter().for_each(|&(time, byte)| rounds.push(time, &[byte]));
        rounds.end_round(&mut take);
        [(6, 6), (9, 9)].iter().for_each(|&(time, byte)| rounds.push(time, &[byte]));
        rounds.end_round(&mut take);
        rounds.push(8, &[8]);
        rounds.release_all(&mut take);
        assert_eq!(got, [3, 5, 6, 7, 8, 9]);
    }
}
