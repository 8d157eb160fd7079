//! Runs the README's first command in a clean clone. (Its second is what runs this.)

use std::process::Command;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

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
    demo.args(["run", "--release", "--locked", "--quiet", "--", "demo", "--once"]);
    demo.current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
    run::step("cargo run --release -- demo --once", &mut demo)?;
    remove(&folder)
}

fn remove(folder: &std::path::Path) -> Outcome {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::failed(format!("{}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}
