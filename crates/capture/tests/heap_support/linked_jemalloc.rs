//! jemalloc as the allocator of a test.

use flamelet_capture::heap::jemalloc::{CONF, Conf};
use std::alloc::{GlobalAlloc, Layout};

/// What jemalloc reads at its start.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static MALLOC_CONF: Conf = CONF;

struct Linked;

// SAFETY: passes everything on to jemalloc, which takes any alignment that is a power of two.
unsafe impl GlobalAlloc for Linked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let flags = tikv_jemalloc_sys::MALLOCX_ALIGN(layout.align());
        // SAFETY: the size is not zero.
        unsafe { tikv_jemalloc_sys::mallocx(layout.size(), flags).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let flags = tikv_jemalloc_sys::MALLOCX_ALIGN(layout.align());
        // SAFETY: the block has this size and alignment.
        unsafe { tikv_jemalloc_sys::sdallocx(block.cast(), layout.size(), flags) }
    }
}

#[global_allocator]
static ALLOCATOR: Linked = Linked;
