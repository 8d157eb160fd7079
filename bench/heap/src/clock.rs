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

/// How long this thread has waited for a CPU so far.
pub(crate) fn waited_for_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// A field of `/proc/self/status`.
pub(crate) fn resident_kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Makes the peak start again from what is resident now.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
}
