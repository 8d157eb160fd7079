//! Runs the README's first command in a clean clone, and makes a release of what it built.

use std::path::PathBuf;
use std::process::Command;

use crate::tally::Tally;
use crate::{Failure, Outcome, dist, run, workspace};

/// Where the programs that the clone has built wait for the gate `dist`.
fn programs() -> PathBuf {
    workspace::target().join("clean-clone-programs")
}

pub(super) fn check(tally: &mut Tally) -> Outcome {
    if !workspace::root().join(".git").exists() {
        tally.skip("clean-clone", "SKIP: not a git checkout, so there is nothing to clone");
        return Ok(());
    }
    let folder = workspace::target().join("clean-clone");
    remove(&folder)?;
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--depth=1"]);
    clone.arg(format!("file://{}", workspace::root().display())).arg(&folder);
    run::step("git clone", &mut clone)?;
    let mut demo = workspace::cargo();
    // Not quiet: what says nothing for long is taken for hung.
    demo.args(["run", "--release", "--locked", "--", "demo", "--once"]);
    demo.current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
    run::step("cargo run --release -- demo --once", &mut demo)?;
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--locked", "--quiet"]);
    build.current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
    run::step("the other program", &mut build)?;
    remove(&programs())?;
    std::fs::create_dir_all(programs()).map_err(|error| Failure::failed(error.to_string()))?;
    for name in ["flamelet", "cargo-flamelet"] {
        let moved = std::fs::rename(folder.join("target/release").join(name), programs().join(name));
        moved.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    }
    remove(&folder)
}

/// Packages the crates and the programs, and tries each package in an empty folder.
pub(super) fn make_release(_: &mut Tally) -> Outcome {
    dist::gate(&programs())?;
    // They belong to the last commit: the next run must not take them for its own.
    remove(&programs())
}

fn remove(folder: &std::path::Path) -> Outcome {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::failed(format!("{}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}
