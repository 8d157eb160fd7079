//! One interval timer for the whole process. The kernel expires it at most once a tick however high the
//! frequency, so each sample is given the CPU time that passed since the one before.
//!
//! A process has only one such timer. If the program uses it, the program's signals stop while this engine runs, and
//! resume afterwards.

use super::Engine;
use crate::cpu::options::Engine as Choice;
use std::io;

pub(super) struct Setitimer {
    period_nanos: u64,
    /// The timer as the program had set it.
    before: libc::itimerval,
}

impl Setitimer {
    pub(super) fn start(period_nanos: u64) -> io::Result<Self> {
        Ok(Self { period_nanos, before: set(&every(period_nanos))? })
    }
}

impl Engine for Setitimer {
    fn choice(&self) -> Choice {
        Choice::Setitimer
    }

    fn update(&mut self, period_nanos: u64) -> usize {
        if period_nanos != self.period_nanos && set(&every(period_nanos)).is_ok() {
            self.period_nanos = period_nanos;
        }
        0
    }

    /// The engine knows no threads, and owes the process one period.
    fn threads(&self) -> usize {
        0
    }
}

impl Drop for Setitimer {
    fn drop(&mut self) {
        let _ = set(&self.before);
    }
}

/// A timer with this period.
fn every(period_nanos: u64) -> libc::itimerval {
    let micros = (period_nanos / 1000).max(1);
    let period = libc::timeval {
        tv_sec: (micros / 1_000_000) as libc::time_t,
        tv_usec: (micros % 1_000_000) as libc::suseconds_t,
    };
    libc::itimerval { it_interval: period, it_value: period }
}

/// Sets the timer and returns what it was before.
fn set(times: &libc::itimerval) -> io::Result<libc::itimerval> {
    let mut before = *times;
    // SAFETY: one structure is filled in, the other is written.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, times, &raw mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}
