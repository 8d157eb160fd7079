//! Runs the test of the feature `jemalloc-for-c`: with it, every program of the build allocates from jemalloc, so other
//! tests are built without it.

use crate::tally::Tally;
use crate::{Failure, Outcome, test, workspace};

pub(super) fn check(tally: &mut Tally) -> Outcome {
    let mut cargo = workspace::cargo();
    // Of the whole workspace, so that dependencies have the features with which the tests were built.
    cargo.args(["test", "--color=never", "--workspace", "--features=flamelet/jemalloc-for-c"]);
    cargo.args(["--test=jemalloc_for_c", "--", "--show-output"]);
    tally.add(test::suite("jemalloc_for_c", &mut cargo, &Vec::new())?);
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed(format!("{} tests failed", tally.failed))) }
}
