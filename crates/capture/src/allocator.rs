//! The allocator that a service installs, on any system.

use std::alloc::System;

/// An allocator that samples what goes through it. On systems other than Linux, it passes every call on.
///
/// ```
/// use flamelet_capture::Alloc;
///
/// #[global_allocator]
/// static ALLOCATOR: Alloc = Alloc::system();
/// # fn main() { drop(vec![0u8; 100]); }
/// ```
/// Nothing is sampled before heap profiling is started. A sampled block below 1 MiB is requested with the alignment of a
/// page, by which a free recognises it without looking up all the others; larger blocks are recognised by their size, so
/// that the inner allocator may still grow them in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alloc<A = System> {
    pub(crate) inner: A,
}

impl Alloc<System> {
    /// Wraps the system's allocator.
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> Alloc<A> {
    /// Wraps `inner`.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }

    /// Returns the allocator that does the work.
    pub const fn inner(&self) -> &A {
        &self.inner
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code, reason = "an allocator")]
mod plain {
    use std::alloc::{GlobalAlloc, Layout};

    // SAFETY: the inner allocator keeps the promises, since every call is passed on unchanged.
    unsafe impl<A: GlobalAlloc> GlobalAlloc for super::Alloc<A> {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { self.inner.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { self.inner.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { self.inner.realloc(block, layout, new_size) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise.
            unsafe { self.inner.dealloc(block, layout) }
        }
    }
}
