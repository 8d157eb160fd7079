//! A cell whose value is set before anybody reads it.

#![allow(
    unsafe_code,
    reason = "a cell that its owner writes to once, without the atomic operations of a `OnceLock`"
)]

use std::cell::UnsafeCell;

/// A cell that its owner fills once, before anybody else can read it.
pub(super) struct SetOnce<T>(UnsafeCell<Option<T>>);

// SAFETY: it is written to by `set` only, whose caller promises that nobody reads it at that time.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: nobody writes to it while it is read, as the caller of `set` promises.
        unsafe { &*self.0.get() }.as_ref()
    }

    /// Sets the value.
    ///
    /// # Safety
    /// There must be no value yet, and no other thread may use the cell until this one has passed it on.
    pub(super) unsafe fn set(&self, value: T) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.get() }.insert(value)
    }
}
