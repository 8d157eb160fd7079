//! Finds the node of a callee from its caller's node and an address.
//!
//! An index of node numbers by hash; the nodes themselves hold the keys. A caller's number comes with the lane of the
//! callee in its upper bits. The index is read and added to without a lock.
//! When it grows, a node that another thread adds at that moment may be missing in the larger one: then its stack
//! gets a second node, and the reader adds the two up.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use flamelet_preload_ledger::{FIRST_FRAME, NO_ROOM, Node};
use flamelet_unwind::fork::Lock;

use crate::{blocks, file, map};

struct Index {
    slots: &'static [AtomicU32],
}

static INDEX: AtomicPtr<Index> = AtomicPtr::new(ptr::null_mut());
pub(crate) static GROWING: Lock<()> = Lock::new(());
/// How many nodes are in the index, or about to be: those of [`elsewhere`] are not.
static INDEXED: AtomicU32 = AtomicU32::new(0);
const _: () = assert!(size_of::<Index>() <= SLOTS_AT);
const FIRST_SLOTS: usize = 8 << 10;
/// The most slots that are probed. An index that is half full never needs that many; one that finds no memory to grow
/// may.
const LONGEST_PROBE: usize = 4 << 10;
/// The slots come after this many bytes, which hold the index itself.
const SLOTS_AT: usize = 64;

/// Returns the node of `address` called from `parent`; [`NO_ROOM`] when it is new and there is no room.
#[inline]
pub(crate) fn child(parent: u32, address: u64) -> u32 {
    // SAFETY: null, or from `grow`, which never frees it.
    let Some(index) = (unsafe { INDEX.load(Ordering::Acquire).as_ref() }) else {
        return first_child(parent, address);
    };
    let mask = index.slots.len() - 1;
    let mut at = place(parent, address, mask);
    let mut made = 0;
    for _ in 0..LONGEST_PROBE {
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
    // A node without a slot is never found again, but this once it counts.
    if made == 0 { NO_ROOM } else { made }
}

#[cold]
fn first_child(parent: u32, address: u64) -> u32 {
    grow(FIRST_SLOTS);
    if INDEX.load(Ordering::Acquire).is_null() { NO_ROOM } else { child(parent, address) }
}

#[cold]
fn make(parent: u32, address: u64, index: &Index) -> u32 {
    let indexed = INDEXED.load(Ordering::Relaxed) as usize;
    if indexed * 2 > index.slots.len() {
        grow(index.slots.len() * 2);
        let is_full = indexed * 8 > index.slots.len() * 7;
        if is_full && ptr::eq(INDEX.load(Ordering::Acquire), index) {
            return NO_ROOM;
        }
    }
    let Some(number) = new_number() else { return NO_ROOM };
    INDEXED.fetch_add(1, Ordering::Relaxed);
    let node = file::node(number);
    node.parent.store(parent, Ordering::Relaxed);
    node.address.store(address, Ordering::Release);
    number
}

/// Returns the number of a new node. It is never given back: another thread may already have the next one.
fn new_number() -> Option<u32> {
    let nodes = &file::header().nodes;
    let mut number = nodes.load(Ordering::Relaxed);
    loop {
        if number >= blocks::MOST_NODES as u64 || !file::has_room_for(number) {
            return None;
        }
        match nodes.compare_exchange_weak(number, number + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(number as u32),
            Err(now) => number = now,
        }
    }
}

/// Returns the node that counts what other lanes free of `node`.
#[inline]
pub(crate) fn elsewhere(node: &Node) -> &'static Node {
    match node.elsewhere.load(Ordering::Acquire) {
        0 => make_elsewhere(node),
        number => file::node(number),
    }
}

#[cold]
fn make_elsewhere(node: &Node) -> &'static Node {
    let Some(number) = new_number() else { return file::node(NO_ROOM) };
    match node.elsewhere.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => file::node(number),
        Err(other) => file::node(other),
    }
}

/// Forgets all nodes, in a forked child.
pub(crate) fn forget() {
    let old = INDEX.swap(ptr::null_mut(), Ordering::AcqRel);
    INDEXED.store(0, Ordering::Relaxed);
    // SAFETY: null, or from `grow`.
    if let Some(length) = unsafe { old.as_ref() }.map(|index| index.slots.len()) {
        // SAFETY: the child has no other thread that could use it, and this one does not.
        unsafe { map::give_back(old.cast(), SLOTS_AT + length * 4) };
    }
}

#[cold]
fn grow(length: usize) {
    // One thread at a time; others continue with the old index meanwhile.
    let Some(_held) = GROWING.try_lock() else { return };
    // SAFETY: null, or made by this function, and never freed.
    let current = unsafe { INDEX.load(Ordering::Acquire).as_ref() }.map_or(0, |index| index.slots.len());
    let Some(memory) = (current < length).then(|| map::zeroed(SLOTS_AT + length * 4)).flatten() else {
        return;
    };
    // SAFETY: zeroes are valid, the mapping is that long, and it is never unmapped.
    let slots: &'static [AtomicU32] =
        unsafe { std::slice::from_raw_parts(memory.add(SLOTS_AT).cast(), length) };
    for number in FIRST_FRAME..file::header().nodes.load(Ordering::Relaxed) as u32 {
        let node = file::node(number);
        let address = node.address.load(Ordering::Acquire);
        // Another thread is about to write this node.
        if address == 0 {
            continue;
        }
        let mut at = place(node.parent.load(Ordering::Relaxed), address, length - 1);
        while slots[at].load(Ordering::Relaxed) != 0 {
            at = (at + 1) & (length - 1);
        }
        slots[at].store(number, Ordering::Relaxed);
    }
    let index: *mut Index = memory.cast();
    // SAFETY: at the start of the mapping, which is aligned for it, before the slots.
    unsafe { index.write(Index { slots }) };
    INDEX.store(index, Ordering::Release);
}

/// Returns where to look first, from the upper bits of a product, on which all bits of the key have an effect. A stack is
/// looked up frame by frame, each waiting for the one before, so this is short.
#[inline]
fn place(parent: u32, address: u64, mask: usize) -> usize {
    let mixed = (address ^ u64::from(parent).rotate_left(37)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (mask as u64).leading_zeros()) as usize
}
