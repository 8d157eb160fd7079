//! How much memory a test takes, counted by its allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts the bytes that are allocated. A test program installs it with
/// `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call is passed on unchanged to the system's allocator; only numbers are kept in addition.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns how many bytes are allocated now.
pub fn allocated() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Returns what `work` returns, and how many bytes more than at its start were allocated at some moment of it.
pub fn most_allocated<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = allocated();
    PEAK.store(before, Ordering::Relaxed);
    let done = work();
    (done, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}
