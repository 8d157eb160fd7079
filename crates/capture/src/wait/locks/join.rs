//! Waits for the end of a thread. The C library makes the system call for `pthread_join` itself, so this function has a
//! stand-in of its own.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::forward::{errno, set_errno};
use super::hook::{self, Waiting};

/// A thread, as C code names it: a number or a pointer.
type Thread = usize;
type Join = unsafe extern "C-unwind" fn(Thread, *mut *mut c_void) -> c_int;

/// The function that the program would call without ours; null until it was looked up.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Looks up the next function of this name.
pub(super) fn prepare() {
    // SAFETY: looks up a name; the result is checked before it is used.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_join".as_ptr()) };
    NEXT.store(next, Ordering::Release);
}

/// Waits for the end of a thread as the C library's function of this name does, and counts the wait.
///
/// # Safety
/// As for the C library's function: the thread must not be joined or detached yet, and `value` be null or valid.
#[inline(always)]
pub unsafe fn pthread_join(thread: Thread, value: *mut *mut c_void) -> c_int {
    let Some(next) = next() else { return libc::ENOSYS };
    if hook::rate() != 0 {
        // SAFETY: the caller's promise.
        return unsafe { join(next, thread, value) };
    }
    // SAFETY: the caller's promise.
    unsafe { next(thread, value) }
}

fn next() -> Option<Join> {
    if NEXT.load(Ordering::Acquire).is_null() {
        // A library joins a thread while it is loaded, before the program is.
        prepare();
    }
    let next = NEXT.load(Ordering::Acquire);
    // SAFETY: null, or what `dlsym` returned as the function of that name, which has this type.
    (!next.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Join>(next) })
}

/// Nothing here has a destructor: a thread may be cancelled while it waits.
///
/// # Safety
/// As for [`pthread_join`].
#[cold]
#[inline(never)]
unsafe fn join(next: Join, thread: Thread, value: *mut *mut c_void) -> c_int {
    let waiting = Waiting::unpublished();
    // SAFETY: the caller's promise.
    let result = unsafe { next(thread, value) };
    let error = errno();
    if let Some(waiting) = waiting.filter(|_| result == 0) {
        waiting.end(0);
    }
    set_errno(error);
    result
}
