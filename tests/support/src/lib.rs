//! What the tests of several crates share.

mod memory;
mod s3;

use std::fmt;
#[cfg(target_os = "linux")]
use std::io;
use std::io::Write;

pub use memory::{CountingAllocator, allocated, most_allocated};
pub use s3::S3Server;

/// Says that a test leaves something out, and why: `skip!("no {program} here")`. The reason must be in
/// `xtask/skips.txt`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => { $crate::say_skipped(format_args!($($reason)*)) };
}

/// Prints the line of [`skip!`], even where the test runner hides what tests print.
pub fn say_skipped(reason: fmt::Arguments<'_>) {
    let reason = reason.to_string().trim().replace('\n', "; ");
    let thread = std::thread::current();
    // The runner names a test's thread after the test, unless it runs all tests on its own thread.
    let test = thread.name().filter(|name| *name != "main").map(|name| format!(" ({name})"));
    let line = format!("SKIP: {reason}{}\n", test.unwrap_or_default());
    // The runner captures what `eprintln!` prints. One write, so that the lines of two tests do not mix.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A small random generator (PCG, 32 bits out), seeded by hand.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0xD1B5_4A32_D192_ED03))
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        let old = self.0;
        self.0 = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        f64::from(self.bits()) / f64::from(u32::MAX)
    }

    /// A normal variable, by the Box-Muller method.
    pub fn normal(&mut self) -> f64 {
        let mut uniform = || (f64::from(self.bits()) + 0.5) / (f64::from(u32::MAX) + 1.0);
        let radius = (-2.0 * uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * uniform()).cos()
    }

    /// A number in `0..limit`; zero for a limit of zero.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { ((u64::from(self.bits()) * limit as u64) >> 32) as usize }
    }
}

/// Makes the kernel refuse a system call of this thread and of those that it starts, by a seccomp filter.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "installs a filter")]
pub fn deny_call(number: libc::c_long) {
    const RETURN_EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
    const ALLOW: u32 = 0x7fff_0000;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let rule = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut rules = [
        rule(LOAD_NUMBER, 0, 0),
        rule(JUMP_IF_EQUAL, 1, number as u32),
        rule(RETURN, 0, RETURN_EPERM),
        rule(RETURN, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the program outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let result = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

/// Returns whether `check` holds in a child that this thread forks. A child that hangs is ended.
#[cfg(unix)]
#[allow(unsafe_code, reason = "forks")]
pub fn holds_in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `check` and exits (the C library takes care of malloc's locks).
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(120);
            libc::_exit(i32::from(!check()));
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0) == child && status == 0
    }
}
