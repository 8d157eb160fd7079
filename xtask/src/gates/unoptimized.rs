//! Runs the storm tests with the sampler built like a service's debug build: without optimization, its handler runs
//! on another stack.

use crate::tally::Tally;
use crate::{Failure, Outcome, test, workspace};

pub(super) fn check(tally: &mut Tally) -> Outcome {
    let mut cargo = workspace::cargo();
    // Of the whole workspace, so that the other crates are those that the tests were built with.
    cargo.args(["test", "--no-fail-fast", "--color=never", "--workspace", "--test=storms"]);
    for package in ["flamelet-capture", "flamelet-unwind"] {
        cargo.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    cargo.args(["--", "--show-output"]);
    tally.add(test::suite("storms", &mut cargo, &Vec::new())?);
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed(format!("{} tests failed", tally.failed))) }
}
