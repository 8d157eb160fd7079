//! Finds the functions of the C library that this one replaces.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C library's function behind one of ours, which has the type `F`.
pub(crate) struct Next<F> {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
    function: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// # Safety
    /// The C library's function of this name must have the type `F`.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer") };
        Self { address: AtomicPtr::new(std::ptr::null_mut()), name, function: PhantomData }
    }

    /// Returns it, looked up by the first call, which the loader or the C library makes before `main`. `None` where no
    /// library after this one has it, as in a program that is linked with its C library.
    pub(crate) fn function(&self) -> Option<F> {
        let mut known = self.address.load(Ordering::Relaxed);
        if known.is_null() {
            // SAFETY: the name is a C string.
            known = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(known, Ordering::Relaxed);
        }
        // SAFETY: not null; `dlsym` returned it as the function of that name, which has this type, says `new`.
        (!known.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&known) })
    }
}

/// Returns -1, with `errno` saying that the function does not exist.
pub(crate) fn missing() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_not_there_is_none() {
        type Number = unsafe extern "C" fn() -> libc::pid_t;
        // SAFETY: the type is that of the C function.
        static KNOWN: Next<Number> = unsafe { Next::new(c"getpid") };
        // SAFETY: there is no such function.
        static MISSING: Next<Number> = unsafe { Next::new(c"flamelet_has_no_such_function") };
        let function = KNOWN.function().expect("a function of the C library");
        // SAFETY: it has no terms.
        assert_eq!(unsafe { function() }, std::process::id() as libc::pid_t);
        assert!(MISSING.function().is_none());
    }
}
