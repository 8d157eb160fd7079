//! Measures the cost of one run of a program, as the kernel counted it.
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
    /// The largest resident size of the program or any of its children, in bytes.
    pub(super) peak: u64,
}

/// Runs `command` and discards its output; it must succeed.
pub(super) fn cost(command: &mut Command) -> Result<Cost, Failure> {
    let floor = forget_own_peak()?;
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
    // SAFETY: `pid` is a child of ours that nothing else waits for, and both pointers are to live values.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited != pid || status != 0 {
        return Err(Failure::failed(format!("{command:?} failed (wait status {status})")));
    }
    let wall = started.elapsed();
    let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    if peak <= floor {
        eprintln!("NOTE: {command:?} took less memory than this program, {floor} bytes: shown is that");
    }
    Ok(Cost { cpu: duration(usage.ru_utime) + duration(usage.ru_stime), wall, peak })
}

/// Resets this program's own peak memory: a child starts as a copy of this program, and the kernel counts that copy's
/// peak as the child's own. Returns the current memory in bytes, which is the least that can be measured.
fn forget_own_peak() -> Result<u64, Failure> {
    const RESET_PEAK: &str = "5";
    let failed = |error: std::io::Error| Failure::failed(format!("own peak memory: {error}"));
    std::fs::write("/proc/self/clear_refs", RESET_PEAK).map_err(failed)?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(failed)?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let kilobytes: u64 = peak.and_then(|peak| peak.parse().ok()).unwrap_or(0);
    Ok(kilobytes * 1024)
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
