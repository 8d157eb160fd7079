//! The library's own memory: from the next allocator, never through the hooks.
//!
//! If that has none, there is a reserve: the program should be the one to find out that memory has run out, and must
//! not end because a list of ours could not grow.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::next;

struct OwnMemory;

#[global_allocator]
static OWN: OwnMemory = OwnMemory;

/// What every block of the C library is aligned to.
const ALIGNED: usize = 16;

// SAFETY: blocks come from the C library's functions, which keep these terms; the same functions free them.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block: *mut u8 = if layout.align() <= ALIGNED {
            // SAFETY: any size may be requested.
            unsafe { next::malloc(layout.size()) }.cast()
        } else {
            // SAFETY: the alignment is a power of two.
            unsafe { next::memalign(layout.align(), layout.size()) }.cast()
        };
        if block.is_null() { from_reserve(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: any size may be requested.
            let block: *mut u8 = unsafe { next::calloc(1, layout.size()) }.cast();
            return if block.is_null() { from_reserve(layout) } else { block };
        }
        // SAFETY: as `alloc`; the block has as many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        if !is_from_reserve(block) {
            // SAFETY: the block is from one of the functions above.
            unsafe { next::free(block.cast()) };
        }
    }
}

/// Takes memory only where it is used.
const RESERVE: usize = 1 << 20;
#[repr(align(4096))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);
// SAFETY: each part of it is handed out once.
unsafe impl Sync for Reserve {}
static MEMORY: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Returns zeroed memory that is never freed; null when the reserve is used up.
#[cold]
fn from_reserve(layout: Layout) -> *mut u8 {
    let start = |used: usize| used.checked_next_multiple_of(layout.align());
    let take = |used: usize| start(used)?.checked_add(layout.size()).filter(|&end| end <= RESERVE);
    match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        // SAFETY: inside the reserve, whose start is aligned to a page.
        Ok(used) if layout.align() <= 4096 => unsafe {
            MEMORY.0.get().cast::<u8>().add(used.next_multiple_of(layout.align()))
        },
        _ => std::ptr::null_mut(),
    }
}

fn is_from_reserve(block: *mut u8) -> bool {
    (block as usize).wrapping_sub(MEMORY.0.get() as usize) < RESERVE
}
