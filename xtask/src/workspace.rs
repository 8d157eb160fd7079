//! Where things are in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the repository's root")
}

/// Cargo's target folder, wherever the user moved it.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Programs that xtask installs for the tests.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// Cargo, the same one that runs us, started in the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
