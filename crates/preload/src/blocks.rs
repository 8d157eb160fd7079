//! Which stack each live block came from: a word for every place where a block can begin.
//!
//! Three levels, so that only the words near blocks exist: a table of 8 GiB pieces, in each a table of 1 MiB pieces,
//! in each a word for every 16 bytes (8 where the allocator is not the C library's). Small blocks lie close together,
//! and so do their words; each word is read and written by one atomic operation, so there is no lock, and a fork
//! copies everything like any other private memory.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::{ptr, slice};

use crate::{map, next};

const LEAF_BITS: u32 = 20;
const MIDDLE_BITS: u32 = 13;
/// User-space addresses have 47 bits on x86_64 and 48 on aarch64.
const ROOT: usize = 1 << (48 - LEAF_BITS - MIDDLE_BITS);

type Leaf = AtomicPtr<AtomicU64>;
static TABLE: [AtomicPtr<Leaf>; ROOT] = [const { AtomicPtr::new(ptr::null_mut()) }; ROOT];
static GRAIN_BITS: AtomicU32 = AtomicU32::new(4);

/// A block's stack and size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) node: u32,
    pub(crate) size: u64,
}

const SIZE_BITS: u32 = 36;
/// Sizes that do not fit are kept in pages.
const IN_PAGES: u64 = 1 << SIZE_BITS;
const NODE_SHIFT: u32 = SIZE_BITS + 1;
/// A block's word has no room for the numbers of more nodes.
pub(crate) const MOST_NODES: usize = 1 << (64 - NODE_SHIFT);

/// Returns the size as a block remembers it: exact below 64 GiB, in whole pages above.
#[inline]
pub(crate) fn kept_size(size: u64) -> u64 {
    if size < IN_PAGES { size } else { size & !0xfff }
}

impl Block {
    #[inline]
    fn pack(self) -> u64 {
        let size =
            if self.size < IN_PAGES { self.size } else { IN_PAGES | (self.size >> 12) & (IN_PAGES - 1) };
        u64::from(self.node) << NODE_SHIFT | size
    }

    #[inline]
    fn unpack(word: u64) -> Option<Self> {
        let size = word & (IN_PAGES - 1);
        let size = if word & IN_PAGES == 0 { size } else { size << 12 };
        (word != 0).then_some(Self { node: (word >> NODE_SHIFT) as u32, size })
    }
}

/// Finds out which allocator is in use.
pub(crate) fn start() {
    GRAIN_BITS.store(if next::is_c_library() { 4 } else { 3 }, Ordering::Relaxed);
}

/// Remembers a block. Returns `false` when there is no memory for it.
#[inline]
pub(crate) fn insert(address: usize, block: Block) -> bool {
    let Some(word) = find(address, true) else { return false };
    word.store(block.pack(), Ordering::Relaxed);
    true
}

/// Forgets a block that is about to be freed.
#[inline]
pub(crate) fn take(address: usize) -> Option<Block> {
    let word = find(address, false)?;
    // No exchange is needed: a block is freed once, by one thread.
    let block = Block::unpack(word.load(Ordering::Relaxed))?;
    word.store(0, Ordering::Relaxed);
    Some(block)
}

/// Forgets everything, in a forked child.
pub(crate) fn clear() {
    for middle in tables() {
        for leaf in middle.iter() {
            let leaf = leaf.load(Ordering::Relaxed);
            if !leaf.is_null() {
                // SAFETY: leaves are never freed, and have this length.
                unsafe { map::clear(leaf.cast(), leaf_bytes()) };
            }
        }
    }
}

fn tables() -> impl Iterator<Item = &'static [Leaf]> {
    let middles = TABLE.iter().map(|middle| middle.load(Ordering::Acquire));
    // SAFETY: tables are never freed, and have this length.
    middles
        .filter(|middle| !middle.is_null())
        .map(|middle| unsafe { slice::from_raw_parts(middle, 1 << MIDDLE_BITS) })
}

fn leaf_bytes() -> usize {
    8 << (LEAF_BITS - GRAIN_BITS.load(Ordering::Relaxed))
}

#[inline]
fn find(address: usize, make: bool) -> Option<&'static AtomicU64> {
    let root = TABLE.get(address >> (LEAF_BITS + MIDDLE_BITS))?;
    let mut middle = root.load(Ordering::Acquire);
    if middle.is_null() {
        middle = make.then(|| make_table(root, size_of::<Leaf>() << MIDDLE_BITS))??;
    }
    let at = address >> LEAF_BITS & ((1 << MIDDLE_BITS) - 1);
    // SAFETY: tables have this many entries and are never freed.
    let entry = unsafe { &*middle.add(at) };
    let mut leaf = entry.load(Ordering::Acquire);
    if leaf.is_null() {
        leaf = make.then(|| make_table(entry, leaf_bytes()))??;
    }
    let word = (address & ((1 << LEAF_BITS) - 1)) >> GRAIN_BITS.load(Ordering::Relaxed);
    // SAFETY: a leaf has a word for every grain of its megabyte.
    Some(unsafe { &*leaf.add(word) })
}

/// Makes a zeroed table, or returns another thread's if that was faster.
#[cold]
fn make_table<T>(place: &AtomicPtr<T>, bytes: usize) -> Option<*mut T> {
    let made = map::zeroed(bytes)?;
    let new = made.cast::<T>();
    match place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(new),
        Err(other) => {
            // SAFETY: no other thread has seen it.
            unsafe { map::give_back(made, bytes) };
            Some(other)
        }
    }
}
