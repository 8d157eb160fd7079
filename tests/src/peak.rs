//! The peak memory of a program, as the kernel counts it.

#![allow(unsafe_code, reason = "the standard library does not hand out what wait4 says")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// Waits for a child to exit, and returns its peak resident memory in bytes.
pub fn wait(pid: u32) -> (ExitStatus, u64) {
    let pid = pid as libc::pid_t;
    let mut status = 0;
    // SAFETY: zeros are a valid rusage, which has only numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to our own variables, which live through the call.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if waited == pid {
            // Linux counts kilobytes.
            return (ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10);
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "waiting for {pid}: {error}");
    }
}

/// Runs `command` with the program `peak_memory`, and returns its output and its peak.
pub fn peak_memory(helper: &str, command: &Command, name: &str) -> (crate::programs::Answer, u64) {
    let file = crate::profiles::scratch().join(format!("{name}.peak"));
    let mut measured = crate::programs::command(helper.as_ref());
    measured.arg(&file).arg(command.get_program()).args(command.get_args());
    let answer = crate::programs::answer(&mut measured);
    let peak = std::fs::read_to_string(&file).expect("peak_memory says how much it was");
    (answer, peak.parse().expect("a number"))
}
