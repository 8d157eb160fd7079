//! The library's own memory: from the next allocator, never through the hooks.

use std::alloc::{GlobalAlloc, Layout};

use crate::next;

struct OwnMemory;

#[global_allocator]
static OWN: OwnMemory = OwnMemory;

/// What every block of the C library is aligned to.
const ALIGNED: usize = 16;

// SAFETY: blocks come from the C library's functions, which keep these terms; they are given back to the same.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: any size may be asked for.
            return unsafe { next::malloc(layout.size()) }.cast();
        }
        // SAFETY: the alignment is a power of two.
        unsafe { next::memalign(layout.align(), layout.size()) }.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: any size may be asked for.
            return unsafe { next::calloc(1, layout.size()) }.cast();
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
        // SAFETY: the block is from one of the functions above.
        unsafe { next::free(block.cast()) };
    }
}
