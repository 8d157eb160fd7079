//! Samples threads from their first instruction: the sampler looks for new threads a few times a second, and by then
//! short ones have ended.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use flamelet_capture::{cpu, own_threads};

use crate::next::Next;

/// Whether this process is sampled.
static IS_SAMPLED: AtomicBool = AtomicBool::new(false);

/// Announces new threads to the sampler, or no longer.
pub(crate) fn follow(is_sampled: bool) {
    IS_SAMPLED.store(is_sampled, Ordering::Release);
}

type Work = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Work, *mut c_void) -> c_int;

// SAFETY: the C function of this name has this type.
static PTHREAD_CREATE: Next<Create> = unsafe { Next::new(c"pthread_create") };

/// What a new thread does.
struct Start {
    work: Work,
    argument: *mut c_void,
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    work: Work,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = PTHREAD_CREATE.function() else { return libc::EAGAIN };
    if !IS_SAMPLED.load(Ordering::Acquire) || own_threads::is_spawning() {
        // SAFETY: the caller keeps to the function's terms.
        return unsafe { create(thread, attributes, work, argument) };
    }
    let start = Box::into_raw(Box::new(Start { work, argument }));
    // SAFETY: the same, with a function and an argument of ours.
    let status = unsafe { create(thread, attributes, begin, start.cast()) };
    if status != 0 {
        // SAFETY: made above, and no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }
    status
}

/// Announces the thread, then does its work. The work may end the thread by unwinding (`pthread_exit`), so nothing here
/// waits to be dropped; the call is the last, so that an optimized build leaves no frame on the stack.
unsafe extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: from `pthread_create` above, for this thread alone.
    let Start { work, argument } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    announce();
    // SAFETY: the program's function and its argument.
    unsafe { work(argument) }
}

/// The program may not notice: `errno` is as it was.
fn announce() {
    // SAFETY: this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the same.
    let before = unsafe { *errno };
    cpu::thread_began();
    // SAFETY: the same.
    unsafe { *errno = before };
}
