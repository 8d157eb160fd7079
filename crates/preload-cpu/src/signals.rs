//! Hides the sampler's signal from the program.
//!
//! While a process is sampled, the functions in this module answer the program's own calls about `SIGURG`: what it
//! sets for the signal is kept and called for signals that are not the sampler's, and it cannot block the signal, so
//! that no thread that waits for signals (`sigwait`, `signalfd`) gets one that it does not expect. Everything else
//! passes on to the C library. A program that calls the kernel directly, as Go's runtime does, takes the signal away;
//! then the sampler stops.

use std::ffi::c_int;
use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, Ordering};

use flamelet_capture::cpu;

use crate::next::{Next, missing};

const SIGNAL: c_int = libc::SIGURG;

/// Whether the sampler has the signal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Answers the program's calls about the signal from now on.
pub(crate) fn take() {
    IS_TAKEN.store(true, Ordering::Release);
}

/// Passes them on from now on.
pub(crate) fn give_back() {
    IS_TAKEN.store(false, Ordering::Release);
}

fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::Acquire)
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;
type Mask = unsafe extern "C" fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int;

// SAFETY: the C functions of these names have these types.
static SIGACTION: Next<Sigaction> = unsafe { Next::new(c"sigaction") };
// SAFETY: the same.
static SIGNAL_FUNCTION: Next<Signal> = unsafe { Next::new(c"signal") };
// SAFETY: the same.
static SIGPROCMASK: Next<Mask> = unsafe { Next::new(c"sigprocmask") };
// SAFETY: the same.
static PTHREAD_SIGMASK: Next<Mask> = unsafe { Next::new(c"pthread_sigmask") };

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if signal == SIGNAL && is_taken() {
        // SAFETY: null or valid, as the caller says.
        if let Some(before) = cpu::program_action(unsafe { new.as_ref() }) {
            // SAFETY: null or valid, as the caller says.
            if let Some(old) = unsafe { old.as_mut() } {
                *old = before;
            }
            return 0;
        }
    }
    let Some(next) = SIGACTION.function() else { return missing() };
    // SAFETY: the caller keeps to the function's terms.
    unsafe { next(signal, new, old) }
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if signal == SIGNAL && is_taken() {
        // SAFETY: zeroes are valid in this plain structure.
        let mut new: libc::sigaction = unsafe { zeroed() };
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        if let Some(before) = cpu::program_action(Some(&new)) {
            return before.sa_sigaction;
        }
    }
    let Some(next) = SIGNAL_FUNCTION.function() else {
        missing();
        return libc::SIG_ERR;
    };
    // SAFETY: the caller keeps to the function's terms.
    unsafe { next(signal, handler) }
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    let Some(next) = SIGPROCMASK.function() else { return missing() };
    // SAFETY: as the caller says.
    unsafe { change_mask(next, how, new, old) }
}

/// Like the C function of this name.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    let Some(next) = PTHREAD_SIGMASK.function() else { return libc::ENOSYS };
    // SAFETY: as the caller says.
    unsafe { change_mask(next, how, new, old) }
}

/// Blocks what the program wants, except for the sampler's signal.
unsafe fn change_mask(next: Mask, how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: null or valid, as the caller says.
    let Some(mut wanted) =
        (unsafe { new.as_ref() }).copied().filter(|_| is_taken() && how != libc::SIG_UNBLOCK)
    else {
        // SAFETY: the caller's own terms.
        return unsafe { next(how, new, old) };
    };
    // SAFETY: a set of our own; `old` is null or valid, as the caller says.
    unsafe {
        libc::sigdelset(&raw mut wanted, SIGNAL);
        next(how, &raw const wanted, old)
    }
}
