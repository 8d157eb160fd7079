//! The clocks that captures read. All of them are async-signal-safe.

#![allow(unsafe_code, reason = "clock_gettime is a C function")]

use std::time::{SystemTime, UNIX_EPOCH};

/// Reads any clock; returns 0 when it does not exist.
#[cfg(unix)]
pub(crate) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the `timespec` above. On an unknown clock it fails and leaves zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Nanoseconds since some moment before this process; never goes back.
#[cfg(unix)]
pub(crate) fn monotonic_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The CPU time of this process.
#[cfg(unix)]
pub(crate) fn process_cpu_nanos() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time of this thread.
#[cfg(unix)]
pub(crate) fn thread_cpu_nanos() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since 1970.
pub(crate) fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
