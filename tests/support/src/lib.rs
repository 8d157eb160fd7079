//! What the tests of several crates share.

use std::fmt;
use std::io::Write;

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

    /// A number in `0..limit`; zero for a limit of zero.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { ((u64::from(self.bits()) * limit as u64) >> 32) as usize }
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
