//! What one run of a program cost, as the kernel counted it.
#![allow(unsafe_code)] // wait4 is the only call that gives one child's own CPU time and peak memory.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

/// The cost of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// User and system time of the program and its children.
    pub(super) cpu: Duration,
    /// From start to end.
    pub(super) wall: Duration,
    /// The largest resident size, in bytes.
    pub(super) peak: u64,
}

/// Runs `command` with its output thrown away; it must succeed.
pub(super) fn cost(command: &mut Command) -> Result<Cost, Failure> {
    let started = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::unusable(format!("cannot run {command:?}: {error}")))?;
    let pid = libc::pid_t::try_from(child.id()).expect("a process id fits");
    let mut status = 0;
    // SAFETY: zero is a valid value of every field of `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `pid` is a child of ours that nobody else waits for, and both pointers are to live values.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited != pid || status != 0 {
        return Err(Failure::failed(format!("{command:?} failed (wait status {status})")));
    }
    Ok(Cost {
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        wall: started.elapsed(),
        peak: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
