//! The program's `errno`, which a successful `malloc` and every `free` leave as it is.
//!
//! Recording an allocation makes no system call. What does (the start, a table that grows, a module that was loaded) keeps
//! it, so that the rest need not look.

/// Puts `errno` back when dropped.
pub(crate) struct Errno(i32);

impl Errno {
    pub(crate) fn keep() -> Self {
        // SAFETY: every thread has one, at a place that is good for as long as the thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
