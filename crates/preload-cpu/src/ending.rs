//! Programs that end with `_exit`, as many shells do: no function that was registered for the end is called then.
//!
//! `_exit` may be called anywhere, also by a handler of a signal, where neither a lock nor memory can be had. So the thread
//! that saves does the work, and the one that ends the program waits for it, but not for long.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::CURRENT;

/// How long the end of a program waits for the last samples.
const PATIENCE: Duration = Duration::from_millis(200);

/// 1 once the program ends.
static ENDING: AtomicU32 = AtomicU32::new(0);
/// 1 once its samples are in the file.
static SAVED: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork.
pub(crate) fn forget() {
    ENDING.store(0, Ordering::Release);
    SAVED.store(0, Ordering::Release);
}

/// Waits for the end of the program; returns whether it came before `longest` was over.
pub(crate) fn is_near(longest: Duration) -> bool {
    wait(&ENDING, longest)
}

/// Lets the program end.
pub(crate) fn saved() {
    set(&SAVED);
}

/// Ends sampling and saves the samples of this process; returns whether that was done within this time. (`false` also if there
/// are none.)
pub(crate) fn save(patience: Duration) -> bool {
    // SAFETY: null, or from a box that is never freed.
    let Some(capture) = (unsafe { CURRENT.load(Ordering::Acquire).as_ref() }) else { return false };
    // The child of a vfork has the memory of its parent, which goes on.
    // SAFETY: returns a number.
    let is_own = capture.pid == unsafe { libc::getpid() } as u32;
    is_own && {
        set(&ENDING);
        wait(&SAVED, patience)
    }
}

/// Waits until `word` is set; returns whether it is.
fn wait(word: &AtomicU32, longest: Duration) -> bool {
    let end = Instant::now() + longest;
    while word.load(Ordering::Acquire) == 0 {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let time = libc::timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        // SAFETY: the kernel reads the word and the time, which outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, &raw const time) };
    }
    true
}

fn set(word: &AtomicU32) {
    word.store(1, Ordering::Release);
    // SAFETY: only wakes those that wait for the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// Ends the process, as the C library does.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    save(PATIENCE);
    loop {
        // SAFETY: does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// The same, under its other name.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}
