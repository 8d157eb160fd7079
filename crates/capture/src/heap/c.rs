//! C's allocation functions, around those of the GNU C library: a program that defines them as its own sees what C code
//! allocates, and what Rust does, because the system's allocator calls them too.
//!
//! Unlike [`Alloc`](super::Alloc), a free knows no size. Every sampled block is at the start of a page, also the largest,
//! and goes back to the C library like any other.
//!
//! A block's size in a [`budget`] is the one that the C library gave it, which may be larger than the one
//! that was requested.

use super::thread::{self, PAGE};
use super::{budget, live, tracker};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// Set by the first allocation of each thread.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Returns whether the program's allocation functions are these.
pub(super) fn is_installed() -> bool {
    IS_INSTALLED.load(Ordering::Relaxed)
}

/// The alignment of every block.
const USUAL: usize = 16;

/// What a new block must be.
#[derive(Clone, Copy)]
struct BlockRequest {
    size: usize,
    alignment: usize,
    is_zeroed: bool,
}

impl BlockRequest {
    /// Requests larger than this fail; they must not be counted, because the sum would overflow.
    const MOST: usize = isize::MAX as usize;

    #[inline(always)]
    fn of(size: usize) -> Self {
        Self { size, alignment: USUAL, is_zeroed: false }
    }

    /// Allocates a block that is not tracked.
    #[inline(always)]
    fn plain(self) -> *mut c_void {
        let Self { size, alignment, is_zeroed } = self;
        // SAFETY: these functions accept any size, and the alignment is a power of two.
        let block = unsafe {
            match (alignment > USUAL, is_zeroed) {
                (true, _) => __libc_memalign(alignment, size),
                (false, true) => __libc_calloc(1, size),
                (false, false) => __libc_malloc(size),
            }
        };
        if block.is_null() {
            tracker::refused(size);
        }
        block
    }

    /// Allocates a block, sampled if it is due.
    #[inline(always)]
    fn allocate(self) -> *mut c_void {
        if self.size > Self::MOST || thread::passes(self.size) { self.plain() } else { self.slow() }
    }

    #[cold]
    #[inline(never)]
    fn slow(self) -> *mut c_void {
        IS_INSTALLED.store(true, Ordering::Relaxed);
        let block = self.sampled(thread::decide(self.size));
        if thread::is_counting() && !block.is_null() {
            budget::allocated(usable(block));
        }
        block
    }

    /// Allocates a block, and tracks it if `due`. Inlined: the tracker leaves out one frame besides its own.
    #[inline(always)]
    fn sampled(self, due: Option<u64>) -> *mut c_void {
        let Some(mean) = due else { return self.plain() };
        // SAFETY: the alignment is a power of two.
        let block = unsafe { __libc_memalign(self.alignment.max(PAGE), self.size.max(PAGE)) };
        if block.is_null() {
            // There may be room for the requested size, if not for a page.
            return self.plain();
        }
        if self.is_zeroed {
            // SAFETY: the block is at least that long.
            unsafe { block.cast::<u8>().write_bytes(0, self.size) };
        }
        // A block that is not tracked is freed like any other.
        tracker::allocated(block as usize, self.size, mean);
        block
    }
}

/// Returns the size that the C library gave a block.
fn usable(block: *mut c_void) -> usize {
    // SAFETY: the caller has a block of the C library.
    unsafe { libc::malloc_usable_size(block) }
}

/// Returns whether the block may be tracked, or this thread's frees are counted.
#[inline(always)]
fn is_of_interest(block: *mut c_void) -> bool {
    thread::is_candidate(block as usize, 0)
        && !block.is_null()
        && (live::may_contain(block as usize) || thread::is_counting())
}

/// C's `malloc`.
#[inline(always)]
pub fn malloc(size: usize) -> *mut c_void {
    BlockRequest::of(size).allocate()
}

/// C's `calloc`.
#[inline(always)]
pub fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(size) => BlockRequest { is_zeroed: true, ..BlockRequest::of(size) }.allocate(),
        // SAFETY: fails, and sets `errno`.
        None => unsafe { __libc_calloc(count, size) },
    }
}

/// C's `free`.
///
/// # Safety
/// The block is null or one of these functions returned it, and nothing uses it any more.
#[inline(always)]
pub unsafe fn free(block: *mut c_void) {
    if is_of_interest(block) {
        // SAFETY: the caller's promise.
        unsafe { slow_free(block) }
    } else {
        // SAFETY: as above.
        unsafe { __libc_free(block) }
    }
}

/// # Safety
/// As [`free`].
#[cold]
#[inline(never)]
unsafe fn slow_free(block: *mut c_void) {
    if thread::is_counting() {
        budget::freed(usable(block));
    }
    // Before the C library gets it back: it may hand out the address at once.
    tracker::freed(block as usize);
    // SAFETY: the caller's promise.
    unsafe { __libc_free(block) };
}

/// C's `realloc`.
///
/// # Safety
/// As [`free`], if this returns a block; otherwise the old one stays as it is, unless `size` is 0.
#[inline(always)]
pub unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size > BlockRequest::MOST {
        // SAFETY: fails, and sets `errno`.
        return unsafe { __libc_realloc(block, size) };
    }
    let passed = thread::passes(size);
    if !passed || is_of_interest(block) {
        // SAFETY: the caller's promise.
        return unsafe { slow_realloc(block, size, passed) };
    }
    // SAFETY: the caller's promise.
    unsafe { __libc_realloc(block, size) }
}

/// # Safety
/// As [`realloc`].
#[cold]
#[inline(never)]
unsafe fn slow_realloc(block: *mut c_void, size: usize, passed: bool) -> *mut c_void {
    let due = if passed { None } else { thread::decide(size) };
    let before = usable(block);
    let moved = if size > 0 && (due.is_some() || tracker::is_tracked(block as usize)) {
        let moved = BlockRequest::of(size).sampled(due);
        if moved.is_null() {
            return moved;
        }
        // SAFETY: both blocks are at least that long, and one of them is new.
        unsafe { std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), before.min(size)) };
        tracker::freed(block as usize);
        // SAFETY: the caller's promise.
        unsafe { __libc_free(block) };
        moved
    } else {
        // With size 0 this frees the block.
        tracker::freed(block as usize);
        // SAFETY: the caller's promise.
        unsafe { __libc_realloc(block, size) }
    };
    if thread::is_counting() && (!moved.is_null() || size == 0) {
        budget::freed(before);
        if !moved.is_null() {
            budget::allocated(usable(moved));
        }
    }
    moved
}

/// C's `reallocarray`.
///
/// # Safety
/// As [`realloc`].
#[inline(always)]
pub unsafe fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // A size that overflows is one that fails, and sets `errno`.
    // SAFETY: the caller's promise.
    unsafe { realloc(block, count.saturating_mul(size)) }
}

/// C's `memalign` and `aligned_alloc`.
#[inline(always)]
pub fn memalign(alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        // SAFETY: whether this fails or rounds up is for the C library to say.
        return unsafe { __libc_memalign(alignment, size) };
    }
    BlockRequest { alignment, ..BlockRequest::of(size) }.allocate()
}

/// C's `posix_memalign`.
///
/// # Safety
/// `out` can be written.
#[inline(always)]
pub unsafe fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    let block = memalign(alignment, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { *out = block };
    0
}

/// C's `valloc`.
#[inline(always)]
pub fn valloc(size: usize) -> *mut c_void {
    memalign(page_size(), size)
}

/// C's `pvalloc`.
#[inline(always)]
pub fn pvalloc(size: usize) -> *mut c_void {
    let page = page_size();
    memalign(page, size.checked_next_multiple_of(page).unwrap_or(usize::MAX))
}

fn page_size() -> usize {
    // SAFETY: only returns a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
