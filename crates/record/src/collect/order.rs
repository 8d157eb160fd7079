//! Puts the records of many rings in the order of their times.
//!
//! Each ring is in order by itself, but a process may map a library on one CPU and run it on another. A record is due
//! when every ring has been read twice after it was written: once to fetch it, and once more for a writer that had
//! taken its timestamp but not yet finished.

use std::sync::mpsc;

use crate::events::chunk::{Chunk, Kept, Pending, Unwound};
use crate::events::ring_records::RingRecord;

/// Chunks whose records wait for their turn.
pub(crate) struct Order {
    waiting: Vec<BufferedRecord>,
    chunks: Vec<WaitingChunk>,
    free: Vec<u32>,
    /// For each ring, when it was last read and when the time before.
    reads: Vec<[u64; 2]>,
}

#[derive(Clone, Copy)]
struct BufferedRecord {
    time: u64,
    chunk: u32,
    offset: u32,
}

#[derive(Default)]
struct WaitingChunk {
    kept: Kept,
    left: usize,
    waiting: Option<Pending>,
    home: Option<mpsc::Sender<Kept>>,
}

/// A record whose turn it is.
pub(crate) struct Due<'a> {
    pub(crate) time: u64,
    pub(crate) record: RingRecord<'a>,
    pub(crate) offset: u32,
    pub(crate) unwound: &'a Unwound,
}

impl Order {
    /// Creates the order for this many rings.
    pub(crate) fn new(rings: usize) -> Self {
        Self { waiting: Vec::new(), chunks: Vec::new(), free: Vec::new(), reads: vec![[0; 2]; rings] }
    }

    /// Takes in what was read from one ring.
    pub(crate) fn add(&mut self, chunk: Chunk) {
        if let Some(read) = self.reads.get_mut(chunk.ring) {
            *read = [chunk.read_at, read[0]];
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.chunks.push(WaitingChunk::default());
            (self.chunks.len() - 1) as u32
        });
        let before = self.waiting.len();
        let mut at = 0;
        while let Some((record, length)) = chunk.kept.bytes.get(at..).and_then(RingRecord::first) {
            if let Some(time) = record.time() {
                self.waiting.push(BufferedRecord { time, chunk: slot, offset: at as u32 });
            }
            at += length.max(8);
        }
        let left = self.waiting.len() - before;
        self.chunks[slot as usize] =
            WaitingChunk { kept: chunk.kept, left, waiting: chunk.waiting, home: chunk.home };
        if left == 0 {
            self.release(slot);
        }
    }

    /// Passes every record that is due to `take`, oldest first.
    pub(crate) fn take_due(&mut self, take: impl FnMut(Due<'_>)) {
        let due = self.reads.iter().map(|read| read[1]).min().unwrap_or(0);
        self.take_before(due, take);
    }

    /// Passes all remaining records to `take`, oldest first; none will follow.
    pub(crate) fn take_rest(&mut self, take: impl FnMut(Due<'_>)) {
        self.take_before(u64::MAX, take);
    }

    fn take_before(&mut self, time: u64, mut take: impl FnMut(Due<'_>)) {
        if !self.waiting.iter().any(|entry| entry.time < time) {
            return;
        }
        // The chunks are sorted runs, which a stable sort merges without comparing everything.
        self.waiting.sort_by_key(|entry| entry.time);
        let due = self.waiting.partition_point(|entry| entry.time < time);
        for at in 0..due {
            let BufferedRecord { time, chunk, offset } = self.waiting[at];
            let slot = &mut self.chunks[chunk as usize];
            slot.left -= 1;
            if let Some((record, _)) = slot.kept.bytes.get(offset as usize..).and_then(RingRecord::first) {
                take(Due { time, record, offset, unwound: &slot.kept.unwound });
            }
            if self.chunks[chunk as usize].left == 0 {
                self.release(chunk);
            }
        }
        self.waiting.drain(..due);
    }

    fn release(&mut self, chunk: u32) {
        let WaitingChunk { mut kept, waiting, home, .. } = std::mem::take(&mut self.chunks[chunk as usize]);
        drop(waiting);
        self.free.push(chunk);
        kept.clear();
        if let Some(home) = home
            && kept.bytes.capacity() > 0
        {
            // A drain that has ended needs no buffers.
            let _ = home.send(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A LOST record with nothing but its time.
    fn record(time: u64) -> Vec<u8> {
        let mut bytes = [2u32.to_le_bytes().as_slice(), &0u16.to_le_bytes(), &48u16.to_le_bytes()].concat();
        bytes.extend([0; 24]);
        bytes.extend(time.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    fn chunk(ring: usize, read_at: u64, times: &[u64]) -> Chunk {
        let bytes = times.iter().flat_map(|&time| record(time)).collect();
        Chunk { ring, read_at, kept: Kept { bytes, ..Kept::default() }, ..Chunk::default() }
    }

    #[test]
    fn records_come_out_in_order_and_only_when_every_ring_was_read_twice() {
        let mut order = Order::new(2);
        let mut seen = Vec::new();
        order.add(chunk(0, 100, &[10, 30, 50]));
        order.add(chunk(1, 101, &[20, 40]));
        order.take_due(|due| seen.push(due.time));
        assert!(seen.is_empty());
        order.add(chunk(0, 200, &[150]));
        order.take_due(|due| seen.push(due.time));
        assert!(seen.is_empty());
        order.add(chunk(1, 201, &[35]));
        order.take_due(|due| seen.push(due.time));
        assert_eq!(seen, [10, 20, 30, 35, 40, 50]);
        order.take_rest(|due| seen.push(due.time));
        assert_eq!(seen, [10, 20, 30, 35, 40, 50, 150]);
    }
}
