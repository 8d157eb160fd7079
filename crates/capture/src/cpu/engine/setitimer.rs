//! One interval timer for the whole process. The kernel expires it at most once a tick however high the
//! frequency, so each sample is given the CPU time that passed since the one before.

use super::Engine;
use crate::cpu::options::Engine as Choice;
use std::io;

pub(super) struct Setitimer {
    period_nanos: u64,
}

impl Setitimer {
    pub(super) fn start(period_nanos: u64) -> io::Result<Self> {
        set(period_nanos)?;
        Ok(Self { period_nanos })
    }
}

impl Engine for Setitimer {
    fn choice(&self) -> Choice {
        Choice::Setitimer
    }

    fn update(&mut self, period_nanos: u64) -> usize {
        if period_nanos != self.period_nanos && set(period_nanos).is_ok() {
            self.period_nanos = period_nanos;
        }
        0
    }

    /// It knows none, and owes the process one period.
    fn threads(&self) -> usize {
        0
    }
}

impl Drop for Setitimer {
    fn drop(&mut self) {
        let _ = set(0);
    }
}

/// Sets the period; 0 stops.
fn set(period_nanos: u64) -> io::Result<()> {
    let micros = if period_nanos == 0 { 0 } else { (period_nanos / 1000).max(1) };
    let period = libc::timeval {
        tv_sec: (micros / 1_000_000) as libc::time_t,
        tv_usec: (micros % 1_000_000) as libc::suseconds_t,
    };
    let times = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: the structure is filled in, and the old value is not asked for.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const times, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
