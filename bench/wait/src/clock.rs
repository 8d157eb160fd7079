//! CPU time, as the kernel counts it.

use std::time::Duration;

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of this thread.
pub(crate) fn thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process.
#[cfg(feature = "flamelet")]
pub(crate) fn process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the nanoseconds of CPU time that one call of `work` takes: the quickest of many batches.
pub(crate) fn least_nanos(batches: u32, calls: u32, mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..batches {
        let start = thread();
        (0..calls).for_each(|_| work());
        least = least.min((thread() - start).as_nanos() as f64 / f64::from(calls));
    }
    least
}
