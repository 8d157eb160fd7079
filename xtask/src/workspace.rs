//! The paths of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, run};

/// Returns the repository's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository's root")
}

/// Reads a file of the repository.
pub(crate) fn read(name: &str) -> Result<String, Failure> {
    std::fs::read_to_string(root().join(name)).map_err(|error| Failure::failed(format!("{name}: {error}")))
}

/// Returns cargo's target folder, wherever the user moved it.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Returns the folder of programs that xtask installs for the tests.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// Returns the target name of the machine that the compiler runs on.
pub(crate) fn host() -> Result<String, Failure> {
    let version = run::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::failed("rustc -vV names no host"))
}

/// Returns the folder with the compiler's libraries for a target.
pub(crate) fn library_folder(target: &str) -> Result<PathBuf, Failure> {
    let folder = run::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(PathBuf::from(folder.trim()))
}

/// Returns the same cargo that runs us, started in the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
