//! Runs the tests of lock profiles in a program that is linked statically, in which the C library's functions are the program's
//! own.

use crate::tally::Tally;
use crate::{Failure, Outcome, test, workspace};

pub(super) fn check(tally: &mut Tally) -> Outcome {
    let host = workspace::host()?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--no-fail-fast", "--color=never", "--package=flamelet", "--test=locks"]);
    // With a target, the flags are not those of macros and build scripts, which are loaded by the compiler.
    cargo.args(["--target", &host]).env("RUSTFLAGS", "-Ctarget-feature=+crt-static");
    cargo.args(["--", "--show-output"]);
    tally.add(test::suite("locks", &mut cargo, &Vec::new())?);
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed(format!("{} tests failed", tally.failed))) }
}
