//! The allocator's wrapper on systems without heap profiling.

use std::alloc::{GlobalAlloc, Layout, System};

/// Wraps the allocator of a program. Heap profiling works on Linux only: on this system, it passes every call on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alloc<A = System> {
    inner: A,
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

// SAFETY: the inner allocator keeps the promises, since every call is passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Notes which of its functions are called.
    #[derive(Default)]
    struct Noting(RefCell<Vec<&'static str>>);

    // SAFETY: the system's allocator does the work.
    unsafe impl GlobalAlloc for Noting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.0.borrow_mut().push("alloc");
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            self.0.borrow_mut().push("alloc_zeroed");
            // SAFETY: the caller's promise.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            self.0.borrow_mut().push("realloc");
            // SAFETY: the caller's promise.
            unsafe { System.realloc(block, layout, new_size) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            self.0.borrow_mut().push("dealloc");
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(block, layout) }
        }
    }

    #[test]
    fn every_call_reaches_the_chosen_allocator() {
        let allocator = Alloc::new(Noting::default());
        let layout = |size| Layout::from_size_align(size, 8).expect("a layout");
        // SAFETY: each block is freed once, with the layout that it has.
        unsafe {
            let block = allocator.alloc(layout(64));
            let block = allocator.realloc(block, layout(64), 128);
            allocator.dealloc(block, layout(128));
            let block = allocator.alloc_zeroed(layout(32));
            assert_eq!(block.read(), 0);
            allocator.dealloc(block, layout(32));
        }
        let calls = allocator.inner().0.borrow();
        assert_eq!(*calls, ["alloc", "realloc", "dealloc", "alloc_zeroed", "dealloc"]);
    }
}
