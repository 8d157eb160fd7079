//! Checks that the lock file of every workspace is up to date: gates that build with `--locked` would find out much later.

use crate::{Failure, Outcome, run, workspace};

/// The folders of the workspaces, from the root.
const WORKSPACES: [&str; 4] = [".", "bench", "fuzz", "recipes"];

pub(super) fn check() -> Outcome {
    for folder in WORKSPACES {
        let mut update = workspace::cargo();
        update.args(["update", "--workspace", "--locked", "--manifest-path"]);
        update.arg(workspace::root().join(folder).join("Cargo.toml"));
        run::output(&mut update).map_err(|failure| {
            let remedy = format!("cargo update --workspace --manifest-path {folder}/Cargo.toml");
            Failure::failed(format!(
                "{folder}/Cargo.lock may be out of date, then `{remedy}` updates it: {}",
                failure.message
            ))
        })?;
    }
    println!("   lock files: {} are up to date", WORKSPACES.len());
    Ok(())
}
