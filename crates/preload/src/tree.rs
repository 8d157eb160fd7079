//! From a caller's node and an address to the node of the callee.
//!
//! An index of node numbers by hash; the nodes themselves hold the keys. It is read and added to without a lock.
//! When it grows, a node that another thread adds at that moment may be missing in the larger one: then its stack
//! gets a second node, and the reader adds the two up.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use flamelet_preload_ledger::{FIRST_FRAME, NO_ROOM};

use crate::lock::Lock;
use crate::{blocks, file, map};

struct Index {
    slots: &'static [AtomicU32],
}

static INDEX: AtomicPtr<Index> = AtomicPtr::new(ptr::null_mut());
pub(crate) static GROWING: Lock = Lock::new();
const FIRST_SLOTS: usize = 8 << 10;

/// The node of `address` called from `parent`; [`NO_ROOM`] when it is new and there is none.
#[inline]
pub(crate) fn child(parent: u32, address: u64) -> u32 {
    // SAFETY: null, or from a box that is never given back.
    let Some(index) = (unsafe { INDEX.load(Ordering::Acquire).as_ref() }) else {
        return first_child(parent, address);
    };
    let mask = index.slots.len() - 1;
    let mut at = hash(parent, address) & mask;
    let mut made = 0;
    loop {
        let mut number = index.slots[at].load(Ordering::Acquire);
        if number == 0 {
            if made == 0 {
                made = make(parent, address, index);
                if made == NO_ROOM {
                    return NO_ROOM;
                }
            }
            match index.slots[at].compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return made,
                Err(other) => number = other,
            }
        }
        let node = file::node(number);
        if node.address.load(Ordering::Relaxed) == address && node.parent.load(Ordering::Relaxed) == parent {
            return number;
        }
        at = (at + 1) & mask;
    }
}

#[cold]
fn first_child(parent: u32, address: u64) -> u32 {
    grow(FIRST_SLOTS);
    if INDEX.load(Ordering::Acquire).is_null() { NO_ROOM } else { child(parent, address) }
}

#[cold]
fn make(parent: u32, address: u64, index: &Index) -> u32 {
    let nodes = &file::header().nodes;
    let number = nodes.fetch_add(1, Ordering::Relaxed);
    if number >= blocks::MOST_NODES as u64 || !file::has_room_for(number) {
        nodes.fetch_sub(1, Ordering::Relaxed);
        return NO_ROOM;
    }
    let node = file::node(number as u32);
    node.address.store(address, Ordering::Relaxed);
    node.parent.store(parent, Ordering::Relaxed);
    if number as usize * 2 > index.slots.len() {
        grow(index.slots.len() * 2);
    }
    number as u32
}

#[cold]
fn grow(length: usize) {
    // One thread at a time; others go on with the old one meanwhile.
    let Some(_held) = GROWING.try_hold() else { return };
    // SAFETY: null, or from a box that is never given back.
    let current = unsafe { INDEX.load(Ordering::Acquire).as_ref() }.map_or(0, |index| index.slots.len());
    let Some(memory) = (current < length).then(|| map::zeroed(length * 4)).flatten() else { return };
    // SAFETY: zeroes are valid, and the memory is never given back.
    let slots: &'static [AtomicU32] = unsafe { std::slice::from_raw_parts(memory.cast(), length) };
    for number in FIRST_FRAME..file::header().nodes.load(Ordering::Relaxed) as u32 {
        if !file::has_room_for(u64::from(number)) {
            break;
        }
        let node = file::node(number);
        let address = node.address.load(Ordering::Relaxed);
        // One that another thread is about to write.
        if address == 0 {
            continue;
        }
        let mut at = hash(node.parent.load(Ordering::Relaxed), address) & (length - 1);
        while slots[at].load(Ordering::Relaxed) != 0 {
            at = (at + 1) & (length - 1);
        }
        slots[at].store(number, Ordering::Relaxed);
    }
    INDEX.store(Box::into_raw(Box::new(Index { slots })), Ordering::Release);
}

#[inline]
fn hash(parent: u32, address: u64) -> usize {
    let mixed = (address ^ u64::from(parent) << 32 ^ u64::from(parent)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> 20
}
