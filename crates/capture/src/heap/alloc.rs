//! What [`Alloc`] does on Linux: it samples, and passes nearly everything straight through.

use super::thread::{self, LARGE, PAGE};
use super::{budget, live, tracker};
use crate::Alloc;
use std::alloc::{GlobalAlloc, Layout};

/// Returns the layout with which a tracked block is requested from the inner allocator; `None` when there is none.
fn tracked_layout(layout: Layout) -> Option<Layout> {
    if layout.size() >= LARGE {
        return Some(layout);
    }
    // At least a whole page: a small block at a page's start would, once freed, be handed out again and again as an
    // ordinary block, and be looked up every time.
    Layout::from_size_align(layout.size().max(PAGE), layout.align().max(PAGE)).ok()
}

/// What a new block must contain.
#[derive(Clone, Copy)]
enum Fill {
    Uninitialized,
    Zeroed,
}

impl<A: GlobalAlloc> Alloc<A> {
    /// Allocates a block that is not tracked.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[inline(always)]
    unsafe fn plain(&self, layout: Layout, fill: Fill) -> *mut u8 {
        let block = match fill {
            // SAFETY: the caller's promise is the one that this call requires.
            Fill::Uninitialized => unsafe { self.inner.alloc(layout) },
            // SAFETY: as above.
            Fill::Zeroed => unsafe { self.inner.alloc_zeroed(layout) },
        };
        if block.is_null() {
            tracker::refused(layout.size());
        }
        block
    }

    /// Handles an allocation that did not pass: usually a sample is due.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[cold]
    #[inline(never)]
    unsafe fn slow_alloc(&self, layout: Layout, fill: Fill) -> *mut u8 {
        let due = thread::decide(layout.size());
        // SAFETY: the caller's promise.
        let block = unsafe { self.sampled(layout, fill, due) };
        if thread::is_counting() && !block.is_null() {
            budget::allocated(layout.size());
        }
        block
    }

    /// Allocates a block, tracked if `due`.
    ///
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    #[inline(always)]
    unsafe fn sampled(&self, layout: Layout, fill: Fill, due: Option<u64>) -> *mut u8 {
        let Some((mean, tracked)) = due.zip(tracked_layout(layout)) else {
            // SAFETY: the caller's promise.
            return unsafe { self.plain(layout, fill) };
        };
        // SAFETY: the layout has the size of the caller's, which is not zero.
        let block = unsafe { self.plain(tracked, fill) };
        if block.is_null() && tracked != layout {
            // There may be room for the requested size, if not for a page.
            // SAFETY: the caller's promise.
            return unsafe { self.plain(layout, fill) };
        }
        if block.is_null() || tracker::allocated(block as usize, layout.size(), mean) || tracked == layout {
            return block;
        }
        // It is not tracked, so it will be freed with the layout of the request.
        // SAFETY: the block was allocated with this layout just now, and nothing else has it.
        unsafe { self.inner.dealloc(block, tracked) };
        // SAFETY: the caller's promise.
        unsafe { self.plain(layout, fill) }
    }

    /// Handles a free that is most likely of interest.
    ///
    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    #[cold]
    #[inline(never)]
    unsafe fn slow_dealloc(&self, block: *mut u8, layout: Layout) {
        if thread::is_counting() {
            budget::freed(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { self.untrack_and_free(block, layout) };
    }

    /// Frees a block of any size that may be tracked.
    ///
    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    #[inline(always)]
    unsafe fn untrack_and_free(&self, block: *mut u8, layout: Layout) {
        // Before the inner allocator gets it back: it may hand out the address at once.
        let lies_as = match may_be_tracked(block, layout) && tracker::freed(block as usize) {
            true => tracked_layout(layout).unwrap_or(layout),
            false => layout,
        };
        // SAFETY: `lies_as` is the layout with which the block was requested.
        unsafe { self.inner.dealloc(block, lies_as) };
    }

    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    #[cold]
    #[inline(never)]
    unsafe fn slow_realloc(&self, block: *mut u8, layout: Layout, new_size: usize, passed: bool) -> *mut u8 {
        let due = if passed { None } else { thread::decide(new_size) };
        if thread::is_counting() {
            budget::freed(layout.size());
            budget::allocated(new_size);
        }
        // SAFETY: the caller promises that the new size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let is_aligned_for_us =
            layout.size() < LARGE && may_be_tracked(block, layout) && tracker::is_tracked(block as usize);
        let due_aligned = due.is_some() && new_size < LARGE;
        if !is_aligned_for_us && !due_aligned {
            // SAFETY: the caller's promise, and the block has the caller's layout.
            return unsafe { self.realloc_in_place(block, layout, new_size, due) };
        }
        // SAFETY: the caller's promise; the new layout is valid.
        let moved = unsafe { self.sampled(new, Fill::Uninitialized, due) };
        if moved.is_null() {
            return moved;
        }
        // SAFETY: both blocks are at least that long, and one of them is new.
        unsafe { std::ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size)) };
        // SAFETY: the block has the caller's layout.
        unsafe { self.untrack_and_free(block, layout) };
        moved
    }

    /// Lets the inner allocator resize the block, which is not aligned for us; it is tracked afterwards if `due`.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    #[inline(always)]
    unsafe fn realloc_in_place(
        &self,
        block: *mut u8,
        layout: Layout,
        new_size: usize,
        due: Option<u64>,
    ) -> *mut u8 {
        // The old address may belong to another block the moment the inner allocator has it.
        let taken = if layout.size() >= LARGE { tracker::take(block as usize) } else { None };
        // SAFETY: the caller's promise.
        let moved = unsafe { self.inner.realloc(block, layout, new_size) };
        if moved.is_null() {
            if let Some((tracker, known)) = taken
                && !tracker.live.insert(block as usize, &known)
            {
                tracker::ended(tracker, &known);
            }
            tracker::refused(new_size);
            return moved;
        }
        if let Some((tracker, known)) = taken {
            tracker::ended(tracker, &known);
        }
        if let Some(mean) = due {
            tracker::allocated(moved as usize, new_size, mean);
        }
        moved
    }
}

/// Returns whether the free of a candidate must be seen. Allocators that group blocks by size put one in ten at a
/// page's start, so this is inlined, but kept off the fast path.
#[cold]
#[inline(always)]
fn is_of_interest(block: *mut u8) -> bool {
    live::may_contain(block as usize) || thread::is_counting()
}

/// Returns whether the block could be a tracked one.
#[inline(always)]
fn may_be_tracked(block: *mut u8, layout: Layout) -> bool {
    ((block as usize).is_multiple_of(PAGE) || layout.size() >= LARGE) && live::may_contain(block as usize)
}

// SAFETY: every block comes from the inner allocator, with the requested size and at least the requested
// alignment, and goes back to it with the layout it was requested with: the live table remembers which blocks
// were requested with a larger alignment. Nothing here unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if thread::passes(layout.size()) {
            // SAFETY: the caller's promise.
            return unsafe { self.plain(layout, Fill::Uninitialized) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.slow_alloc(layout, Fill::Uninitialized) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if thread::passes(layout.size()) {
            // SAFETY: the caller's promise.
            return unsafe { self.plain(layout, Fill::Zeroed) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.slow_alloc(layout, Fill::Zeroed) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if thread::is_candidate(block as usize, layout.size()) && is_of_interest(block) {
            // SAFETY: the caller's promise.
            unsafe { self.slow_dealloc(block, layout) }
        } else {
            // SAFETY: the caller's promise; a block that is not tracked has its own layout.
            unsafe { self.inner.dealloc(block, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (passed, is_candidate) = thread::passes_from(block as usize, layout.size(), new_size);
        if !passed || is_candidate && is_of_interest(block) {
            // SAFETY: the caller's promise.
            return unsafe { self.slow_realloc(block, layout, new_size, passed) };
        }
        // SAFETY: the caller's promise; a block that is not tracked has its own layout.
        let moved = unsafe { self.inner.realloc(block, layout, new_size) };
        if moved.is_null() {
            tracker::refused(new_size);
        }
        moved
    }
}
