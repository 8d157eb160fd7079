//! The kernel's timers on the CPU clocks of threads.

use crate::cpu::handler::{self, TimerTag};
use crate::threads::Tid;
use std::io;

/// The kernel's number for the CPU clock of any thread of this process.
pub(super) fn clock_of(tid: Tid) -> libc::clockid_t {
    (!tid << 3) | 6
}

/// Returns whether this process has such a thread, by whether its clock exists.
pub(super) fn is_alive(tid: Tid) -> bool {
    // SAFETY: only asks whether the clock exists; with a null pointer nothing is written.
    unsafe { libc::clock_getres(clock_of(tid), std::ptr::null_mut()) == 0 }
}

/// A kernel timer, deleted when dropped.
pub(super) struct Timer(libc::timer_t);

// SAFETY: a timer id is a number for the kernel, good on any thread of the process.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer that expires when the thread has used `after_nanos`, and every `period_nanos` from then on.
    pub(super) fn new(tid: Tid, period_nanos: u64, after_nanos: u64) -> io::Result<Self> {
        let value = TimerTag { period_nanos }.pack();
        // SAFETY: plain C structures, for which zeros are good, filled in; they outlive the calls.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_signo = handler::signal();
            event.sigev_value = libc::sigval { sival_ptr: value as *mut libc::c_void };
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = tid;
            let mut id: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(clock_of(tid), &raw mut event, &raw mut id) != 0 {
                return Err(io::Error::last_os_error());
            }
            let timer = Self(id);
            let mut times: libc::itimerspec = std::mem::zeroed();
            times.it_interval = timespec(period_nanos);
            times.it_value = timespec(after_nanos.max(1));
            if libc::timer_settime(timer.0, 0, &raw const times, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(timer)
        }
    }

    /// Gives it away as a number above 0.
    pub(super) fn into_number(self) -> usize {
        let id = self.0 as usize;
        std::mem::forget(self);
        id.wrapping_add(1)
    }

    /// Takes it back.
    ///
    /// # Safety
    /// The number must be from [`Timer::into_number`], and taken back once.
    pub(super) unsafe fn from_number(number: usize) -> Self {
        Self(number.wrapping_sub(1) as libc::timer_t)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the id came from `timer_create` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// The time between two ticks of the kernel.
pub(super) fn tick_nanos() -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above. The coarse clock advances at every tick.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    u64::try_from(resolution.tv_nsec).unwrap_or(0).clamp(1_000_000, 10_000_000)
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    }
}
