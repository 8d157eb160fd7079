//! Runs the tests of lock profiles in a program that is linked statically, in which the C library's functions are the program's
//! own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, test, workspace};

pub(super) fn check(tally: &mut Tally) -> Outcome {
    let mut tests = Command::new(build()?);
    tests.arg("--show-output").current_dir(workspace::root().join("crates/flamelet"));
    tally.add(test::suite("locks", &mut tests, &Vec::new())?);
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed(format!("{} tests failed", tally.failed))) }
}

/// Builds the test, and returns its program. Only this last step gets the flag: it decides how to link, and the macros look at
/// it in the program that calls them. The crates below are the same with and without it.
fn build() -> Result<PathBuf, Failure> {
    let mut cargo = workspace::cargo();
    cargo.args(["rustc", "--package=flamelet", "--test=locks", "--message-format=json-render-diagnostics"]);
    // Their features differ from those in the workspace, so these crates are built again. They sample nothing, and
    // without optimization that takes half the time.
    for package in ["flamelet-profile", "flamelet-record", "flamelet-store"] {
        cargo.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    cargo.args(["--", "-Ctarget-feature=+crt-static"]).stderr(Stdio::inherit());
    let messages = run::output(&mut cargo)?;
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let executable = message["executable"].as_str()?;
        (message["target"]["name"] == "locks").then(|| PathBuf::from(executable))
    });
    program.ok_or_else(|| Failure::failed("cargo names no program of the test `locks`"))
}
