//! CPU clocks and resident memory.

use std::time::Duration;

/// CPU time of the whole process.
pub(crate) fn process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread.
pub(crate) fn thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The peak of the resident memory counts from here on.
pub(crate) fn reset_peak() {
    const PEAK: &str = "5";
    std::fs::write("/proc/self/clear_refs", PEAK).expect("the kernel resets the peak");
}

/// A field of `/proc/self/status`.
pub(crate) fn resident_kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
