//! Preallocated slots for raw samples, passed between signal handlers and the collector without a lock.
//!
//! Two lists linked through the slots: *free*, from which a handler takes the slot that was given back last
//! (so that the same few, cache-warm slots serve an ordinary load, however many there are for a burst), and
//! *full*, which the collector takes as a whole.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One cache line more than the frames, so that slots do not all fall on the same cache sets.
const PADDING: usize = 8;
/// The end of a list.
const END: u32 = u32::MAX;

/// What a handler notes about one sample, besides its frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// The thread.
    pub(super) tid: i32,
    /// Its name.
    pub(super) name: [u8; 16],
    /// The monotonic clock.
    pub(super) time: u64,
    /// The CPU time that the sample stands for.
    pub(super) cpu_nanos: u64,
    /// The number of the thread's label set.
    pub(super) labels: u32,
    /// How many frames there are.
    pub(super) depth: u32,
    /// Whether they reach the thread's start.
    pub(super) is_rooted: bool,
}

struct Slot {
    next: AtomicU32,
    record: UnsafeCell<Record>,
}

/// The slots.
pub(super) struct Pool {
    slots: Box<[Slot]>,
    /// `stride` words for each slot, all in one piece. Untouched pages of it cost nothing.
    frames: *mut u64,
    depth: usize,
    stride: usize,
    /// The first free slot, and a count in the upper half that tells a list from one that looks the same.
    free: AtomicU64,
    full: AtomicU32,
}

// SAFETY: a slot is on one of the lists or owned by one `Taken` or by the collector; the lists hand it over
// with release and acquire ordering.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn new(slot_count: usize, depth: usize) -> Self {
        let slot_count = u32::try_from(slot_count).unwrap_or(END).clamp(1, END - 1);
        let slots = (0..slot_count).map(|index| Slot {
            next: AtomicU32::new(if index + 1 < slot_count { index + 1 } else { END }),
            record: UnsafeCell::new(Record::default()),
        });
        let slots: Box<[Slot]> = slots.collect();
        let stride = depth + PADDING;
        let layout = Self::layout(slots.len(), stride);
        // SAFETY: the layout is not empty: there is at least one slot, and the stride is at least 8.
        let frames = unsafe { alloc_zeroed(layout) }.cast::<u64>();
        if frames.is_null() {
            handle_alloc_error(layout);
        }
        Self { slots, frames, depth, stride, free: AtomicU64::new(0), full: AtomicU32::new(END) }
    }

    fn layout(slot_count: usize, stride: usize) -> Layout {
        Layout::array::<u64>(slot_count * stride).expect("options keep this far below the limit")
    }

    /// The deepest stack that a slot holds.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Takes a free slot. Async-signal-safe.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            let slot = self.slots.get(index as usize)?;
            let next = slot.next.load(Ordering::Relaxed);
            let tag = (head >> 32).wrapping_add(1) << 32;
            match self.free.compare_exchange_weak(
                head,
                tag | u64::from(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(Taken { pool: self, index }),
                Err(now) => head = now,
            }
        }
    }

    fn give_back(&self, index: u32) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            self.slots[index as usize].next.store(head as u32, Ordering::Relaxed);
            let tag = (head >> 32).wrapping_add(1) << 32;
            match self.free.compare_exchange_weak(
                head,
                tag | u64::from(index),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Hands every full slot to `each`, oldest first, and frees it. Several threads may do this at a time.
    pub(super) fn drain(&self, mut each: impl FnMut(&Record, &[u64])) {
        let newest = self.full.swap(END, Ordering::AcqRel);
        let mut index = self.reverse(newest);
        while index != END {
            let slot = &self.slots[index as usize];
            let next = slot.next.load(Ordering::Relaxed);
            // SAFETY: the slot was on the full list, which `swap` gave to this thread alone; whoever filled it
            // is done. `depth` frames were written, and `Taken::submit` checked that they fit.
            let (record, frames) = unsafe {
                let record = *slot.record.get();
                let first = self.frames.add(index as usize * self.stride);
                (record, std::slice::from_raw_parts(first, record.depth as usize))
            };
            each(&record, frames);
            self.give_back(index);
            index = next;
        }
    }

    /// Turns a list around; gives its new first slot.
    fn reverse(&self, mut index: u32) -> u32 {
        let mut before = END;
        while index != END {
            let next = self.slots[index as usize].next.swap(before, Ordering::Relaxed);
            before = index;
            index = next;
        }
        before
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with the same layout.
        unsafe { dealloc(self.frames.cast(), Self::layout(self.slots.len(), self.stride)) };
    }
}

/// A slot that its holder fills.
pub(super) struct Taken<'a> {
    pool: &'a Pool,
    index: u32,
}

impl Taken<'_> {
    /// Room for the frames.
    #[inline]
    pub(super) fn frames(&mut self) -> &mut [u64] {
        // SAFETY: the slot's words belong to whoever took it, that is to `self`, borrowed mutably.
        unsafe {
            let first = self.pool.frames.add(self.index as usize * self.pool.stride);
            std::slice::from_raw_parts_mut(first, self.pool.depth)
        }
    }

    /// Gives the slot to the collector.
    #[inline]
    pub(super) fn submit(self, mut record: Record) {
        record.depth = record.depth.min(self.pool.depth as u32);
        let slot = &self.pool.slots[self.index as usize];
        // SAFETY: the slot's record belongs to whoever took it, that is to `self`.
        unsafe { *slot.record.get() = record };
        let mut head = self.pool.full.load(Ordering::Relaxed);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            match self.pool.full.compare_exchange_weak(head, self.index, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn submit(pool: &Pool, value: u64, depth: usize) -> bool {
        let Some(mut taken) = pool.take() else { return false };
        taken.frames()[..depth].fill(value);
        taken.submit(Record { time: value, depth: depth as u32, ..Record::default() });
        true
    }

    #[test]
    fn samples_come_out_in_order_and_a_full_pool_refuses() {
        let pool = Pool::new(4, 8);
        let accepted: Vec<bool> = (0..6).map(|value| submit(&pool, value, 3)).collect();
        assert_eq!(accepted, [true, true, true, true, false, false]);
        let mut seen = Vec::new();
        pool.drain(|record, frames| seen.push((record.time, frames.to_vec())));
        assert_eq!(seen, (0..4).map(|value| (value, vec![value; 3])).collect::<Vec<_>>());
        assert!(submit(&pool, 9, 8));
    }

    #[test]
    fn many_threads_lose_nothing_but_what_was_refused() {
        let pool = Pool::new(64, 16);
        let done = AtomicBool::new(false);
        let (mut drained, mut submitted) = (0u64, 0);
        std::thread::scope(|scope| {
            let producers: Vec<_> = (1..=4u64)
                .map(|thread| {
                    let pool = &pool;
                    scope.spawn(move || (0..20_000).filter(|_| submit(pool, thread, 16)).count() as u64)
                })
                .collect();
            let collector = scope.spawn(|| {
                let mut count = 0;
                loop {
                    let last = done.load(Ordering::Acquire);
                    pool.drain(|record, frames| {
                        assert!(frames.iter().all(|&frame| frame == record.time));
                        count += 1;
                    });
                    if last {
                        return count;
                    }
                }
            });
            submitted = producers.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            done.store(true, Ordering::Release);
            drained = collector.join().expect("no panic");
        });
        assert_eq!(drained, submitted);
        assert!(drained > 0);
        let mut free = 0;
        while pool.take().is_some() {
            free += 1;
        }
        assert_eq!(free, 64);
    }
}
