//! Checks the licences, versions and sources of all dependencies with cargo-deny, by the rules in `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

/// Pinned, so that a new version does not change the result.
const VERSION: &str = "0.20.2";

pub(super) fn check(_: &mut Tally) -> Outcome {
    let mut deny = Command::new(cargo_deny()?);
    deny.args(["--workspace", "--locked", "--all-features", "check", "--deny", "unmatched-skip"]);
    deny.args(["bans", "licenses", "sources"]).current_dir(workspace::root());
    run::step("cargo deny", &mut deny)
}

/// Returns the program, which is installed under `target/tools` when it is first needed.
fn cargo_deny() -> Result<PathBuf, Failure> {
    let root = workspace::tools().join(format!("cargo-deny-{VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        let mut install = workspace::cargo();
        install.args(["install", "cargo-deny", "--version", VERSION, "--locked", "--quiet"]);
        // Without optimization and debug information: it takes longer to build than to run.
        install.args(["--debug", "--root"]).arg(&root).env("CARGO_PROFILE_DEV_DEBUG", "0");
        run::step("installing cargo-deny into target/tools", &mut install)?;
    }
    Ok(program)
}
