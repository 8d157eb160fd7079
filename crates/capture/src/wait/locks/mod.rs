//! Who waits for locks, and who makes them wait.
//!
//! std, parking_lot and all that is built like them wait by the system call `futex`, and make it through the C library's
//! function `syscall`. A program that defines a function of this name itself sees every such wait and wake, and nothing
//! else: a lock that no thread waits for makes no call, and costs nothing. [`syscall`] is what that function calls; the
//! macro `flamelet::lock_profiling!` defines it. A thread that joins another waits inside the C library; for that, the macro also
//! defines `pthread_join`, which calls [`pthread_join`].
//!
//! ```text
//!  waits: syscall(futex, WAIT) ─► published among the waiters ─► kernel ─► long enough? ─► unwind, count
//!  wakes: syscall(futex, WAKE) ─► finds the waiter it will wake ─► long enough? ─► unwind, leave the stack there ─► kernel
//! ```
//!
//! Waits are sampled by their length, as in Go's block profile: one that is longer than the rate always, a shorter one
//! with the probability length / rate.
//!
//! # What the caller must know
//!
//! * C code that waits inside the C library (`pthread_mutex_lock`) makes its system calls there and is not seen.
//! * `errno`, results, signals and cancellation are those of the call itself. Nothing is allocated and no lock is taken.
//! * In the child of a `fork`, counting continues with a copy of the table.

mod forward;
mod hook;
mod join;
mod waiters;

pub use hook::syscall;
pub use join::pthread_join;

use std::sync::atomic::{AtomicPtr, Ordering};

use flamelet_unwind::fork::{self, Handlers, Part};

use super::{Delays, Rows};
use crate::{Error, ErrorKind, Result, loaded_modules};

/// The highest rate: an hour.
pub const MAX_RATE: u64 = 3_600_000_000_000;

static TABLE: AtomicPtr<Delays> = AtomicPtr::new(std::ptr::null_mut());

static AT_FORK: Handlers = Handlers::in_child(waiters::forget_all);

/// Returns the table, if counting was ever started.
fn table() -> Option<&'static Delays> {
    // SAFETY: the pointer is null or that of a table that lives as long as the process.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// Returns whether the program defines `syscall` as flamelet's; otherwise no wait is ever seen.
pub fn is_installed() -> bool {
    hook::is_installed()
}

/// Counts waits from now on, one sample for each `rate` nanoseconds that a thread is blocked; 0 stops counting. What was
/// counted stays.
pub fn set_rate(rate: u64) -> Result<()> {
    if rate > MAX_RATE {
        return Err(Error::invalid("the rate of lock profiling is an hour at most"));
    }
    if rate > 0 && !is_installed() {
        let message = "lock profiling needs `flamelet::lock_profiling!()` in the program";
        return Err(Error::new(ErrorKind::NotEnabled, message));
    }
    if rate > 0 {
        prepare()?;
    }
    hook::set_rate(rate);
    Ok(())
}

/// Returns the rate; 0 when waits are not counted.
pub fn rate() -> u64 {
    hook::rate()
}

/// Looks up the functions of the C library, or of another library that stands before it. The program calls it when it is
/// loaded: later, the lookup might wait for a thread that loads a library, and that thread for the one that joins; and a library
/// that defines the same functions is to see all calls, not only those since a profiler was started.
pub extern "C" fn resolve() {
    forward::prepare();
    join::prepare();
}

/// Makes the tables, once.
fn prepare() -> Result<()> {
    if table().is_some() {
        return Ok(());
    }
    loaded_modules::refresh()?;
    let cannot = |error: std::io::Error| {
        Error::new(ErrorKind::Denied, format!("no memory for lock profiles: {error}"))
    };
    waiters::prepare().map_err(cannot)?;
    forward::prepare();
    fork::watch(Part::Waits, &AT_FORK);
    let made = Box::into_raw(Box::new(Delays::new().map_err(cannot)?));
    let other = TABLE.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if other.is_err() {
        // SAFETY: another thread was faster, and no other thread knows this one.
        drop(unsafe { Box::from_raw(made) });
    }
    Ok(())
}

/// Returns a copy of all that was counted. Empty if counting was never started.
pub fn snapshot() -> Rows {
    table().map(Delays::snapshot).unwrap_or_default()
}

/// Returns how many nanoseconds this thread has waited by futex since it started, while waits were counted.
#[inline]
pub(crate) fn blocked_nanos() -> u64 {
    hook::blocked_nanos()
}
