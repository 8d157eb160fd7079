//! The clocks that captures read. All but `quick_nanos` are async-signal-safe.

#![allow(unsafe_code, reason = "clock_gettime is a C function")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod quick;

/// Nanoseconds since 1970.
pub(crate) use flamelet_profile::moment::now as unix_nanos;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use quick::{Calibration, quick_nanos};

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

/// The same: there is no quicker way here.
#[cfg(all(unix, not(all(target_os = "linux", target_arch = "x86_64"))))]
pub(crate) fn quick_nanos() -> u64 {
    monotonic_nanos()
}

/// There is nothing to measure here.
#[cfg(all(unix, not(all(target_os = "linux", target_arch = "x86_64"))))]
#[derive(Default)]
pub(crate) struct Calibration;

#[cfg(all(unix, not(all(target_os = "linux", target_arch = "x86_64"))))]
impl Calibration {
    pub(crate) fn go_on(&mut self) {}
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
