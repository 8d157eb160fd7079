//! Counts allocations and frees.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_preload_ledger::{NUMBER_BITS, Node, PutAside, SIZE_NODE};
use flamelet_unwind::Registers;

use crate::blocks::{self, Block};
use crate::slot::{Inside, ThreadSlot, slot};
use crate::start::{self, IS_ALONE, MEAN};
use crate::thread::LANES_USED;
use crate::{file, sampling, tree};

/// Where a hook was called from.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// The stack pointer on entry.
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    /// The link register, if there is one.
    pub(crate) lr: u64,
}

impl Caller {
    /// Returns the caller's registers right after the call.
    #[inline]
    fn registers(self) -> Registers {
        if cfg!(target_arch = "x86_64") {
            // SAFETY: on entry of a function the stack pointer points to the return address.
            let pc = unsafe { *(self.sp as *const u64) };
            return Registers { pc, sp: self.sp + 8, fp: self.fp, lr: 0 };
        }
        let pc = self.lr & ((1 << 48) - 1);
        Registers { pc, sp: self.sp, fp: self.fp, lr: self.lr }
    }
}

/// Records a block that the program got.
#[inline]
pub(crate) fn allocated(block: *mut c_void, size: usize, caller: Caller) {
    if !start::is_recording() && !start::begin() {
        return;
    }
    let slot = slot();
    let mean = MEAN.load(Ordering::Relaxed);
    if mean != 0 {
        let left = slot.countdown.get().wrapping_sub(size as i64);
        slot.countdown.set(left);
        if left >= 0 {
            slot.last_block.set(0);
            return;
        }
    }
    if slot.inside.get() != Inside::Not {
        pass_by(slot);
        return;
    }
    slot.inside.set(Inside::Recording);
    record(slot, block as usize, size, mean, caller);
    slot.inside.set(Inside::Not);
}

/// Counts what a signal handler allocates in between as missed, and ignores what libraries allocate on our behalf.
#[cold]
fn pass_by(slot: &ThreadSlot) {
    if slot.inside.get() == Inside::Recording {
        file::header().missed.fetch_add(1, Ordering::Relaxed);
    }
}

fn record(slot: &ThreadSlot, address: usize, size: usize, mean: u64, caller: Caller) {
    let is_new = !slot.has_state();
    let state = slot.state();
    if mean != 0 {
        let distance = sampling::next_distance(&mut state.random, mean);
        slot.countdown.set(distance);
        // A thread's first distance has to be counted down too.
        if is_new && distance >= size as i64 {
            slot.countdown.set(distance - size as i64);
            return;
        }
    }
    let mut node = state.walker.node(&caller.registers());
    let size = blocks::kept_size(size as u64);
    if mean != 0 {
        node = tree::child(node | slot.lane.get() << NUMBER_BITS, SIZE_NODE | size);
    }
    if !blocks::insert(address, Block { node, size }) {
        file::header().missed.fetch_add(1, Ordering::Relaxed);
        return;
    }
    slot.last_block.set(address);
    count_allocation(slot, file::node(node), size, size.max(mean) as i64);
}

/// Takes a block that the program is about to free or to resize. Call it before that happens: another thread may get
/// the same address right after. The returned block must be counted by [`count_free`] or put back.
#[inline]
pub(crate) fn take(block: *mut c_void) -> Option<Block> {
    if !start::is_recording() && !start::begin() {
        return None;
    }
    let taken = blocks::take(block as usize);
    if taken.is_none() {
        slot().last_block.set(0);
    }
    taken
}

/// Puts back a block that could not be resized and so still exists.
pub(crate) fn put_back(block: *mut c_void, taken: Block) {
    blocks::insert(block as usize, taken);
}

#[inline]
pub(crate) fn count_free(block: *mut c_void, taken: Block) {
    let slot = slot();
    let is_temporary = slot.last_block.replace(0) == block as usize;
    let node = file::node(taken.node);
    add_live(slot, -(taken.size.max(MEAN.load(Ordering::Relaxed)) as i64));
    put_peak_aside(node);
    let lane = lane_of(node);
    let is_own = lane != 0 && lane == slot.lane.get();
    let counts = if is_own || lane == 0 { node } else { tree::elsewhere(node) };
    add(&counts.frees, 1, is_own);
    add(&counts.freed, taken.size, is_own);
    if is_temporary {
        add(&counts.temporary, 1, is_own);
    }
}

#[inline]
fn count_allocation(slot: &ThreadSlot, node: &Node, size: u64, weight: i64) {
    // After a new peak, every node's live bytes are those at the peak, this block included.
    if !add_live(slot, weight) {
        put_peak_aside(node);
    }
    // A thread allocates in nodes of its own lane, or in one for which there was no room.
    let is_own = lane_of(node) != 0;
    add(&node.allocations, 1, is_own);
    add(&node.allocated, size, is_own);
}

#[inline(always)]
fn lane_of(node: &Node) -> u32 {
    node.parent.load(Ordering::Relaxed) >> NUMBER_BITS
}

/// Adds to the bytes alive. Returns whether they are a new peak.
#[inline]
fn add_live(slot: &ThreadSlot, amount: i64) -> bool {
    let (header, number) = (file::header(), slot.lane.get());
    let lane = &header.lanes[number as usize];
    if number == 0 {
        lane.live.fetch_add(amount, Ordering::Relaxed);
    } else {
        let live = lane.live.load(Ordering::Relaxed).wrapping_add(amount);
        lane.live.store(live, Ordering::Relaxed);
        // Reading the lanes of other threads is slow. So a thread among others looks at their sum only when it has changed
        // it by a thousandth of the peak.
        let changed = live.wrapping_sub(lane.looked_at.load(Ordering::Relaxed)).unsigned_abs();
        if changed <= header.peak.load(Ordering::Relaxed) as u64 >> 10 && !is_alone() {
            return false;
        }
        lane.looked_at.store(live, Ordering::Relaxed);
    }
    is_new_peak()
}

fn is_new_peak() -> bool {
    let header = file::header();
    let lanes = header.lanes.iter().take(LANES_USED.load(Ordering::Relaxed) as usize);
    let live = lanes.map(|lane| lane.live.load(Ordering::Relaxed)).fold(0, i64::wrapping_add);
    if live <= header.peak.load(Ordering::Relaxed) {
        return false;
    }
    header.peak.fetch_max(live, Ordering::Relaxed);
    header.peak_turn.fetch_add(1, Ordering::Relaxed);
    true
}

/// Before a node changes for the first time since the peak, puts aside what it has: that is what it had then.
#[inline]
fn put_peak_aside(node: &Node) {
    let turn = file::header().peak_turn.load(Ordering::Relaxed);
    let aside = node.peak.load(Ordering::Relaxed);
    if !PutAside(aside).is_of(turn) {
        let elsewhere = node.elsewhere.load(Ordering::Acquire);
        let freed_there =
            if elsewhere == 0 { 0 } else { file::node(elsewhere).freed.load(Ordering::Relaxed) };
        let freed = node.freed.load(Ordering::Relaxed).wrapping_add(freed_there);
        let live = node.allocated.load(Ordering::Relaxed).saturating_sub(freed);
        // If another thread was faster, what it put aside is right, and this value may not be.
        let new = PutAside::new(turn, live).0;
        let _ = node.peak.compare_exchange(aside, new, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Returns whether this is the only thread.
#[inline(always)]
fn is_alone() -> bool {
    // SAFETY: null, or a byte of the C library that only it writes.
    unsafe { IS_ALONE.load(Ordering::Relaxed).as_ref() }.is_some_and(|alone| *alone != 0)
}

/// Adds to a count; without an atomic addition if no other thread adds to it.
#[inline(always)]
fn add(counter: &AtomicU64, amount: u64, is_own: bool) {
    if is_own {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    } else {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
