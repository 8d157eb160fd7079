//! Finds the functions of the C library that this one replaces.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The C library's function behind one of ours.
pub(crate) struct Next {
    address: AtomicUsize,
    name: &'static CStr,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { address: AtomicUsize::new(0), name }
    }

    /// Returns its address, looked up by the first call, which the loader or the C library makes before `main`.
    pub(crate) fn address(&self) -> usize {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(found, Ordering::Relaxed);
        found
    }
}
