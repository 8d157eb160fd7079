//! The system's allocator, which puts large blocks on large pages once a profile is being opened.
//!
//! The columns of a large profile are hundreds of megabytes that are written once and read once or twice. The kernel
//! hands out memory page by page, when each is first touched, which costs more time than filling the page; with pages of
//! 2 MiB there are 512 times fewer of them. Only kernels that are set to `always` or `madvise` do so. A command that opens
//! no profile keeps small pages.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

static ARE_WANTED: AtomicBool = AtomicBool::new(false);

/// Puts large blocks that are allocated from now on on large pages.
pub(crate) fn want() {
    ARE_WANTED.store(true, Ordering::Relaxed);
}

/// Blocks from here on get large pages. Smaller ones would often be half empty.
const LARGE: usize = 8 << 20;

/// The allocator.
pub(crate) struct LargePages;

// SAFETY: every block comes from the system's allocator and goes back to it, with the same layout.
unsafe impl GlobalAlloc for LargePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc(layout) };
        if layout.size() >= LARGE {
            advise(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= LARGE {
            advise(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if new_size >= LARGE && new_size > layout.size() {
            advise(moved, new_size);
        }
        moved
    }
}

/// Tells the kernel that a block is to be on large pages.
#[cold]
fn advise(block: *mut u8, size: usize) {
    if block.is_null() || !ARE_WANTED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: returns a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // Whole pages, also where the allocator's own words are: a mapping in two parts could not be resized in place.
    let (start, end) = (block as usize & !(page - 1), (block as usize + size).next_multiple_of(page));
    // SAFETY: the pages of a live block are mapped, and the advice changes no content. A kernel that refuses it changes
    // nothing but errno, which an allocation that succeeds leaves as it was.
    unsafe {
        let errno = *libc::__errno_location();
        libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the mapping with `address` is marked for large pages; `None` if the kernel does not say.
    fn is_marked(address: usize) -> Option<bool> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bound = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((start, end)) = range.and_then(|(start, end)| bound(start).zip(bound(end))) {
                is_here = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return Some(flags.split_whitespace().any(|flag| flag == "hg"));
            }
        }
        None
    }

    #[test]
    fn large_blocks_are_marked_also_after_they_grow() {
        want();
        let mut block = Vec::<u8>::with_capacity(2 * LARGE);
        let marks = |block: &Vec<u8>| {
            let start = block.as_ptr() as usize;
            [is_marked(start), is_marked(start + block.capacity() - 1)]
        };
        let first = marks(&block);
        block.push(1);
        block.reserve_exact(5 * LARGE);
        if first.contains(&None) {
            flamelet_test_support::skip!("the kernel does not say which mappings are marked");
            return;
        }
        // SAFETY: a length of zero touches nothing; the kernel only checks whether it knows the advice.
        let can_mark = unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_HUGEPAGE) } == 0;
        let expected = [Some(can_mark); 2];
        assert_eq!((first, marks(&block), block[0]), (expected, expected, 1));
    }
}
