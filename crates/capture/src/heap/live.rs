//! The live table: which blocks are tracked, by address.
//!
//! Every address has two buckets of eight cells, a cache line each, so that a lookup is bounded and a removal leaves
//! no mark. A cell holds 32 bits of the hash and the number of the block's record. All of it is lock-free: the thread
//! that got a block inserts it and the thread that frees it removes it, before the inner allocator can hand out the
//! address again.

use super::interval::{Weight, mix};
use super::ledger::RowId;
use crate::tables::memory;
use std::io;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

const BUCKET: usize = 8;
const RECORD_WORDS: usize = 8;
/// How often an insertion looks again when other threads take the cells it found.
const TRIES: usize = 4;

/// The largest number of blocks that can be tracked at a time.
pub(super) const MAX_CAPACITY: usize = 1 << 24;

/// What is known about a tracked block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveBlock {
    pub(super) site: RowId,
    pub(super) weight: Weight,
    /// When it was allocated, on the monotonic clock.
    pub(super) born: u64,
    /// The thread that allocated it, and that thread's position at the time (see `thread::position`).
    pub(super) thread: u64,
    pub(super) position: u64,
    /// How often the counts had been reset when it was allocated.
    pub(super) resets: u32,
}

/// How many tracked addresses there are for each of some hashes: one load rules out most blocks that only look like
/// tracked ones.
static FILTER: [AtomicU16; 1 << FILTER_BITS] = [const { AtomicU16::new(0) }; 1 << FILTER_BITS];
const FILTER_BITS: u32 = 14;

#[inline(always)]
fn filter(address: usize) -> &'static AtomicU16 {
    &FILTER[((address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize]
}

/// Returns whether the block at `address` may be tracked; mostly it is not.
#[inline(always)]
pub(super) fn may_contain(address: usize) -> bool {
    filter(address).load(Ordering::Relaxed) != 0
}

/// See the module's introduction.
pub(super) struct LiveTable {
    cells: &'static [AtomicU64],
    records: &'static [AtomicU64],
    /// The first free record and a count of changes; records are numbered from 1.
    free: AtomicU64,
    /// Records that were never used.
    fresh: AtomicU64,
}

impl LiveTable {
    pub(super) fn new(capacity: usize) -> io::Result<Self> {
        let capacity = capacity.clamp(64, MAX_CAPACITY);
        Ok(Self {
            cells: memory::private_words((2 * capacity).next_power_of_two())?,
            records: memory::private_words((capacity + 1) * RECORD_WORDS)?,
            free: AtomicU64::new(0),
            fresh: AtomicU64::new(1),
        })
    }

    /// Tracks the block at `address`; returns `false` when the table is full.
    pub(super) fn insert(&self, address: usize, block: &LiveBlock) -> bool {
        let Some(number) = self.take_record() else { return false };
        self.write(number, address, block);
        filter(address).fetch_add(1, Ordering::Relaxed);
        let hash = mix(address as u64);
        let cell = (hash & !0xffff_ffff) | u64::from(number);
        for _ in 0..TRIES {
            let Some(empty) = self.roomier_cell(hash) else { break };
            if empty.compare_exchange(0, cell, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
        filter(address).fetch_sub(1, Ordering::Relaxed);
        self.give_record(number);
        false
    }

    /// Returns whether the block at `address` is tracked.
    pub(super) fn contains(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    /// Stops tracking the block at `address`; returns what was known about it, if anything.
    pub(super) fn remove(&self, address: usize) -> Option<LiveBlock> {
        let (cell, held) = self.find(address)?;
        // The block is the caller's alone, so no other thread changes its cell; a double free fails here.
        cell.compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let number = held as u32;
        let block = self.read(number);
        filter(address).fetch_sub(1, Ordering::Relaxed);
        self.give_record(number);
        Some(block)
    }

    /// Returns how many blocks are tracked. (Counts them; for tests and comments.)
    pub(super) fn len(&self) -> usize {
        self.cells.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count()
    }

    fn find(&self, address: usize) -> Option<(&'static AtomicU64, u64)> {
        let hash = mix(address as u64);
        self.buckets(hash).into_iter().flatten().find_map(|cell| {
            let held = cell.load(Ordering::Acquire);
            let is_it = held != 0
                && (held ^ hash) >> 32 == 0
                && self.record(held as u32)[0].load(Ordering::Acquire) == address as u64;
            is_it.then_some((cell, held))
        })
    }

    fn buckets(&self, hash: u64) -> [&'static [AtomicU64]; 2] {
        let mask = self.cells.len() / BUCKET - 1;
        let bucket = |number: u64| {
            let start = (number as usize & mask) * BUCKET;
            &self.cells[start..start + BUCKET]
        };
        // Two independent 32-bit numbers.
        [bucket(hash), bucket(mix(hash) >> 16)]
    }

    fn roomier_cell(&self, hash: u64) -> Option<&'static AtomicU64> {
        let is_empty = |cell: &&AtomicU64| cell.load(Ordering::Relaxed) == 0;
        let [one, two] = self.buckets(hash).map(|bucket| {
            let mut empty = bucket.iter().filter(is_empty);
            (empty.next(), empty.count())
        });
        match (one.0, two.0) {
            (Some(_), Some(other)) if two.1 > one.1 => Some(other),
            (Some(cell), _) | (None, Some(cell)) => Some(cell),
            (None, None) => None,
        }
    }

    fn record(&self, number: u32) -> &'static [AtomicU64] {
        let start = number as usize * RECORD_WORDS;
        &self.records[start..start + RECORD_WORDS]
    }

    fn write(&self, number: u32, address: usize, block: &LiveBlock) {
        let words = [
            address as u64,
            u64::from(block.site.0) << 32 | u64::from(block.resets),
            block.weight.objects,
            block.weight.bytes,
            block.born,
            block.thread,
            block.position,
        ];
        for (place, word) in self.record(number).iter().zip(words) {
            place.store(word, Ordering::Release);
        }
    }

    fn read(&self, number: u32) -> LiveBlock {
        let record = self.record(number);
        let word = |at: usize| record[at].load(Ordering::Acquire);
        LiveBlock {
            site: RowId((word(1) >> 32) as u32),
            resets: word(1) as u32,
            weight: Weight { objects: word(2), bytes: word(3) },
            born: word(4),
            thread: word(5),
            position: word(6),
        }
    }

    fn take_record(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != 0 {
            let next = self.record(head as u32)[7].load(Ordering::Acquire);
            let new = counted(head, next as u32);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(head as u32),
                Err(other) => head = other,
            }
        }
        let capacity = (self.records.len() / RECORD_WORDS) as u64;
        if self.fresh.load(Ordering::Relaxed) >= capacity {
            return None;
        }
        let number = self.fresh.fetch_add(1, Ordering::AcqRel);
        (number < capacity).then_some(number as u32)
    }

    fn give_record(&self, number: u32) {
        let record = self.record(number);
        // A record that is not in use has no address: a lookup must not find it by a stale cell.
        record[0].store(0, Ordering::Release);
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            record[7].store(u64::from(head as u32), Ordering::Release);
            let new = counted(head, number);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }
}

/// Returns the head of the free list after a change: the count distinguishes it from an equal earlier head.
fn counted(old: u64, first: u32) -> u64 {
    ((old >> 32).wrapping_add(1) << 32) | u64::from(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(born: u64) -> LiveBlock {
        let weight = Weight { objects: 3, bytes: 4 };
        LiveBlock { site: RowId(12), weight, born, thread: 5, position: 6, resets: 7 }
    }

    #[test]
    fn a_full_table_refuses_and_recovers() {
        let table = LiveTable::new(64).expect("memory");
        let kept = (1..1000).filter(|at| table.insert(at * 4096, &block(*at as u64))).count();
        assert_eq!((kept, table.len()), (64, 64));
        assert_eq!(table.remove(4096 * 999), None);
        assert_eq!(table.remove(4096), Some(block(1)));
        assert!(table.insert(0x1010, &block(9)) && table.contains(0x1010) && !table.contains(0x1000));
    }

    #[test]
    fn nine_tenths_of_the_capacity_fit() {
        // There are twice as many cells as records, so buckets practically never overflow.
        let table = LiveTable::new(10_000).expect("memory");
        assert!((1..=9_000usize).all(|at| table.insert(at << 12, &block(0))));
        assert!((1..=9_000usize).all(|at| table.remove(at << 12).is_some()));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn threads_insert_and_remove_each_others_blocks() {
        let table = LiveTable::new(4096).expect("memory");
        let (sender, receiver) = std::sync::mpsc::sync_channel::<usize>(512);
        std::thread::scope(|scope| {
            for thread in 0..3usize {
                let (sender, table) = (sender.clone(), &table);
                scope.spawn(move || {
                    for at in 1..20_000usize {
                        let address = (at * 4 + thread) << 12;
                        assert!(table.insert(address, &block(address as u64)));
                        sender.send(address).expect("the receiver is there");
                    }
                });
            }
            drop(sender);
            for address in receiver {
                assert_eq!(table.remove(address), Some(block(address as u64)));
            }
        });
        assert_eq!(table.len(), 0);
    }
}
