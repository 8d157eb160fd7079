//! Calls for which a process must have only one thread.
//!
//! Capabilities belong to a thread, and the C library, which changes the user of all threads, ends a program whose threads
//! do not have the same ones. The kernel lets only processes with one thread leave or join some namespaces. So while a
//! program without threads of its own makes such a call, ours are not there: sampling ends before it and begins again
//! after it.

use std::ffi::{c_int, c_void};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use flamelet_capture::own_threads;

use crate::next::{Next, missing};

/// How long to wait for our threads to end. Without that, the call does what it does in a process with several threads.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(200);

type Capset = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;
type Unshare = unsafe extern "C" fn(c_int) -> c_int;
type Setns = unsafe extern "C" fn(c_int, c_int) -> c_int;

// SAFETY: the C functions of these names have these types.
static CAPSET: Next<Capset> = unsafe { Next::new(c"capset") };
// SAFETY: the same.
static UNSHARE: Next<Unshare> = unsafe { Next::new(c"unshare") };
// SAFETY: the same.
static SETNS: Next<Setns> = unsafe { Next::new(c"setns") };

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn capset(header: *mut c_void, sets: *const c_void) -> c_int {
    let Some(next) = CAPSET.function() else { return missing() };
    // SAFETY: the caller keeps to the function's terms.
    alone(|| unsafe { next(header, sets) })
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let Some(next) = UNSHARE.function() else { return missing() };
    // SAFETY: the caller keeps to the function's terms.
    alone(|| unsafe { next(flags) })
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setns(namespace: c_int, kind: c_int) -> c_int {
    let Some(next) = SETNS.function() else { return missing() };
    // SAFETY: the caller keeps to the function's terms.
    alone(|| unsafe { next(namespace, kind) })
}

/// Calls a function of the C library without threads of ours, if there are no others.
fn alone(call: impl FnOnce() -> c_int) -> c_int {
    // All that are not this one are ours; one of ours that is just ending may be among them, and is taken for another.
    let are_ours = matches!(other_threads(), Some(others @ 1..) if others <= own_threads::running());
    if !are_ours || !crate::pause() {
        return call();
    }
    let end = Instant::now() + PATIENCE;
    while other_threads() != Some(0) && Instant::now() < end {
        thread::sleep(LOOK);
    }
    let result = call();
    // SAFETY: this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the same.
    let after = unsafe { *errno };
    // What the program may do now, it may forbid us.
    let _ = crate::begin();
    // SAFETY: the same.
    unsafe { *errno = after };
    result
}

/// Returns how many threads there are but the calling one; `None` if that cannot be found out.
fn other_threads() -> Option<usize> {
    fs::read_dir("/proc/self/task").ok()?.count().checked_sub(1)
}
