//! Preallocated slots for raw samples, passed between signal handlers and the collector without a lock.
//!
//! Slots are linked by number into lists: *free*, from which a handler takes the slot that was given back last (so
//! that the same few, cache-warm slots serve an ordinary load, however many there are for a burst), and *full*, which
//! the collector takes as a whole. A slot is one piece of memory, its record in front of its frames, and there are
//! two sizes: most stacks fit a shallow one, so that a burst of samples touches few pages.
//!
//! A model checks it (`pool_model.rs`): it runs threads that use a pool in all orders with up to three switches between
//! them.

use std::io;
use std::sync::atomic::Ordering;

use crate::atomics::{AtomicU32, AtomicU64, reads, writes};

/// The frames that a shallow slot holds: with its record, a kilobyte plus a cache line, so that slots do not all fall
/// into the same cache sets.
const SHALLOW: usize = 128;
/// There is one deep slot for this many shallow ones.
const SHALLOW_PER_DEEP: usize = 4;
/// This many shallow slots have their memory from the start: what an ordinary load uses.
const READY: usize = 256;
/// The end of a list.
const END: u32 = u32::MAX;
/// The link of a slot that was never used.
const NEVER_LINKED: u32 = 0;

/// What a handler notes about one sample, besides its frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampleRecord {
    /// The monotonic clock.
    pub(super) time: u64,
    /// The CPU time that the sample stands for.
    pub(super) cpu_nanos: u64,
    /// The thread.
    pub(super) tid: i32,
    pub(super) name: [u8; 16],
    /// The number of the thread's label set.
    pub(super) labels: u32,
    /// How many frames there are.
    pub(super) depth: u32,
    /// How long the handler took.
    pub(super) handler_nanos: u32,
    /// Whether the frames reach the thread's start.
    pub(super) is_rooted: bool,
}

/// The slots. What every handler reads is one cache line.
#[repr(C, align(64))]
pub(super) struct Pool {
    shallow: Stock,
    full: AtomicU32,
    deep: Stock,
}

/// What precedes a slot's frames: one cache line.
#[repr(C, align(64))]
struct Front {
    record: SampleRecord,
    /// One more than the number of the next slot on the list. Memory starts as zeros, and zero stands for the slot's
    /// neighbour, so that the pages of unused slots are never touched.
    link: AtomicU32,
}

const _: () = assert!(size_of::<Front>() == 64, "one cache line");

/// The memory of slots of one size, in one piece. Untouched pages of it cost nothing.
struct Stock {
    memory: *mut u8,
    /// The number of the first slot, and one past the last.
    first: u32,
    end: u32,
    /// The frames that a slot holds.
    depth: usize,
    /// The first free slot, and in the upper half a count that distinguishes this list from an earlier one that looks the
    /// same.
    free: AtomicU64,
}

// SAFETY: a slot is on one of the lists or owned by one `Taken` or by the collector; the lists hand it over
// with release and acquire ordering.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

impl Stock {
    fn new(first: u32, count: u32, depth: usize) -> io::Result<Self> {
        let size = Self::size(count, depth);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: maps new memory at a place of the kernel's choice. Not by the allocator, which may write all the
        // zeros itself and so touch memory that is never used.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = memory.cast();
        let free = if count == 0 { END } else { first };
        Ok(Self { memory, first, end: first + count, depth, free: AtomicU64::new(free.into()) })
    }

    fn stride(depth: usize) -> usize {
        size_of::<Front>() + (depth * size_of::<u64>()).next_multiple_of(align_of::<Front>())
    }

    fn size(count: u32, depth: usize) -> usize {
        (count.max(1) as usize).saturating_mul(Self::stride(depth))
    }

    /// Writes to the first slots, so that no handler has to wait for the kernel to find memory for them.
    fn make_ready(&self) {
        for index in (self.first..self.end).take(READY) {
            // SAFETY: called before anyone else knows the pool, so every slot is this thread's.
            unsafe { self.record(index).write(SampleRecord::default()) };
        }
    }

    #[inline]
    fn front(&self, index: u32) -> *mut Front {
        debug_assert!((self.first..self.end).contains(&index));
        let offset = (index - self.first) as usize * Self::stride(self.depth);
        // SAFETY: the slot is within the memory mapped for all of them.
        unsafe { self.memory.add(offset) }.cast()
    }

    #[inline]
    fn record(&self, index: u32) -> *mut SampleRecord {
        // SAFETY: a field of a front that is there.
        unsafe { &raw mut (*self.front(index)).record }
    }

    #[inline]
    fn frames(&self, index: u32) -> *mut u64 {
        // SAFETY: a slot has a front, and then its frames.
        unsafe { self.front(index).add(1) }.cast()
    }

    #[inline]
    fn link(&self, index: u32) -> &AtomicU32 {
        // SAFETY: a field of a front that is there, which starts as zeros and is never reached in another way.
        unsafe { &(*self.front(index)).link }
    }

    /// The slot after `index` on its list.
    #[inline]
    fn next(&self, index: u32) -> u32 {
        match self.link(index).load(Ordering::Relaxed) {
            NEVER_LINKED if index + 1 == self.end => END,
            NEVER_LINKED => index + 1,
            END => END,
            link => link - 1,
        }
    }

    #[inline]
    fn set_next(&self, index: u32, next: u32) {
        let link = if next == END { END } else { next + 1 };
        self.link(index).store(link, Ordering::Relaxed);
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let size = Self::size(self.end - self.first, self.depth);
        // SAFETY: mapped by `new` with the same size.
        unsafe { libc::munmap(self.memory.cast(), size) };
    }
}

impl Pool {
    /// Makes `slot_count` slots, and deep ones beside them if stacks of `depth` frames need those.
    pub(super) fn new(slot_count: usize, depth: usize) -> io::Result<Self> {
        let count = u32::try_from(slot_count).unwrap_or(END).clamp(1, END / 2);
        let deep_count = if depth > SHALLOW { count.div_ceil(SHALLOW_PER_DEEP as u32) } else { 0 };
        let shallow = Stock::new(0, count, depth.min(SHALLOW))?;
        let deep = Stock::new(count, deep_count, depth)?;
        shallow.make_ready();
        Ok(Self { shallow, full: AtomicU32::new(END), deep })
    }

    /// The deepest stack that a slot holds.
    pub(super) fn depth(&self) -> usize {
        self.deep.depth.max(self.shallow.depth)
    }

    pub(super) fn slot_count(&self) -> usize {
        self.shallow.end as usize
    }

    /// Takes a free slot. Async-signal-safe.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        self.take_of(&self.shallow)
    }

    /// Takes a free slot that holds the deepest stacks, or any if there is none. Async-signal-safe.
    #[cold]
    pub(super) fn take_deep(&self) -> Option<Taken<'_>> {
        self.take_of(&self.deep).or_else(|| self.take())
    }

    #[inline]
    fn take_of<'a>(&'a self, stock: &'a Stock) -> Option<Taken<'a>> {
        let mut head = stock.free.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            if index == END {
                return None;
            }
            let tag = (head >> 32).wrapping_add(1) << 32;
            let new = tag | u64::from(stock.next(index));
            match stock.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Taken { pool: self, stock, index }),
                Err(now) => head = now,
            }
        }
    }

    /// Returns whether a stack of this many frames needs a deep slot.
    #[cold]
    pub(super) fn is_deep(&self, depth: usize) -> bool {
        depth > self.shallow.depth
    }

    fn stock_of(&self, index: u32) -> &Stock {
        if index < self.shallow.end { &self.shallow } else { &self.deep }
    }

    fn give_back(&self, index: u32) {
        let stock = self.stock_of(index);
        let mut head = stock.free.load(Ordering::Relaxed);
        loop {
            stock.set_next(index, head as u32);
            let tag = (head >> 32).wrapping_add(1) << 32;
            let new = tag | u64::from(index);
            match stock.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Hands every full slot to `each`, oldest first, and frees it. Several threads may do this at a time.
    pub(super) fn drain(&self, mut each: impl FnMut(&SampleRecord, &[u64])) {
        let newest = self.full.swap(END, Ordering::AcqRel);
        let mut index = self.reverse(newest);
        while index != END {
            let stock = self.stock_of(index);
            reads(stock.record(index));
            // SAFETY: the slot was on the full list, which `swap` gave to this thread alone; whoever filled it
            // is done. `depth` frames were written, and `Taken::submit` checked that they fit.
            let (record, frames) = unsafe {
                let record = stock.record(index).read();
                (record, std::slice::from_raw_parts(stock.frames(index), record.depth as usize))
            };
            each(&record, frames);
            let next = stock.next(index);
            self.give_back(index);
            index = next;
        }
    }

    /// Reverses a list; returns its new first slot.
    fn reverse(&self, mut index: u32) -> u32 {
        let mut before = END;
        while index != END {
            let stock = self.stock_of(index);
            let next = stock.next(index);
            stock.set_next(index, before);
            before = index;
            index = next;
        }
        before
    }
}

/// A slot that was taken, for its holder to fill.
pub(super) struct Taken<'a> {
    pool: &'a Pool,
    stock: &'a Stock,
    index: u32,
}

impl Taken<'_> {
    /// Room for the frames.
    #[inline]
    pub(super) fn frames(&mut self) -> &mut [u64] {
        writes(self.stock.record(self.index));
        // SAFETY: the slot's words belong to whoever took it, that is to `self`, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.stock.frames(self.index), self.stock.depth) }
    }

    /// Returns whether [`Pool::take_deep`] could give more room.
    #[inline]
    pub(super) fn is_shallow(&self) -> bool {
        self.stock.depth < self.pool.deep.depth
    }

    /// Gives the slot back as it is.
    #[cold]
    pub(super) fn give_back(self) {
        self.pool.give_back(self.index);
    }

    /// Gives the slot to the collector.
    #[inline]
    pub(super) fn submit(self, mut record: SampleRecord) {
        record.depth = record.depth.min(self.stock.depth as u32);
        writes(self.stock.record(self.index));
        // SAFETY: the slot's record belongs to whoever took it, that is to `self`.
        unsafe { self.stock.record(self.index).write(record) };
        let full = &self.pool.full;
        let mut head = full.load(Ordering::Relaxed);
        loop {
            self.stock.set_next(self.index, head);
            match full.compare_exchange_weak(head, self.index, Ordering::AcqRel, Ordering::Relaxed) {
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

    fn pool_of(slot_count: usize, depth: usize) -> Pool {
        Pool::new(slot_count, depth).expect("there is memory")
    }

    fn submit(pool: &Pool, value: u64, depth: usize) -> bool {
        let Some(mut taken) = pool.take() else { return false };
        taken.frames()[..depth].fill(value);
        taken.submit(SampleRecord { time: value, depth: depth as u32, ..SampleRecord::default() });
        true
    }

    #[test]
    fn samples_come_out_in_order_and_a_full_pool_refuses() {
        let pool = pool_of(4, 8);
        let accepted: Vec<bool> = (0..6).map(|value| submit(&pool, value, 3)).collect();
        assert_eq!(accepted, [true, true, true, true, false, false]);
        let mut seen = Vec::new();
        pool.drain(|record, frames| seen.push((record.time, frames.to_vec())));
        assert_eq!(seen, (0..4).map(|value| (value, vec![value; 3])).collect::<Vec<_>>());
        assert!(submit(&pool, 9, 8));
    }

    #[test]
    fn deep_stacks_have_slots_of_their_own_and_take_shallow_ones_when_those_are_gone() {
        let pool = pool_of(8, 1000);
        assert_eq!((pool.depth(), pool.slot_count()), (1000, 8));
        let room = |taken: Option<Taken<'_>>| taken.map(|mut taken| taken.frames().len());
        let deep: Vec<_> = (0..4).map(|_| room(pool.take_deep())).collect();
        assert_eq!(deep, [Some(1000), Some(1000), Some(SHALLOW), Some(SHALLOW)]);
        let shallow: Vec<_> = (0..7).map(|_| room(pool.take())).collect();
        assert_eq!(shallow, [[Some(SHALLOW); 6].as_slice(), &[None]].concat());

        let pool = pool_of(4, 1000);
        let mut taken = pool.take_deep().expect("free");
        assert!(!taken.is_shallow());
        taken.frames().fill(7);
        taken.submit(SampleRecord { depth: 1000, ..SampleRecord::default() });
        let mut seen = 0;
        pool.drain(|_, frames| seen += frames.iter().filter(|&&frame| frame == 7).count());
        assert_eq!(seen, 1000);
        let taken = pool.take().expect("free");
        assert!(taken.is_shallow());
        taken.give_back();
        assert_eq!(room(pool.take_deep()), Some(1000), "it came back to its own list");
    }

    #[test]
    fn many_threads_lose_nothing_but_what_was_refused() {
        let pool = pool_of(64, 16);
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
