//! The program's `errno`, which a successful `malloc` and every `free` leave as it is.
//!
//! Recording an allocation makes no system call. What does (the start, a growing table, a newly loaded module)
//! restores `errno`, so that the rest does not have to care.

/// Puts `errno` back when dropped.
pub(crate) struct Errno(i32);

impl Errno {
    pub(crate) fn keep() -> Self {
        // SAFETY: every thread has one, at a place that is valid for as long as the thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
