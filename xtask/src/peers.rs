//! `cargo xtask tools --peers`: a receiver made of the code of Pyroscope's, Parca's and OpenTelemetry's own protocols, for
//! the tests that push to it (`tests/tests/peers.rs`).
//!
//! It takes minutes to build, so it is built only when asked for, at low priority, into the user's cache, which all clones
//! share. `tests/peers/wire/go.mod` pins the versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::golang::Golang;
use crate::{Failure, Outcome, run, workspace};

/// Builds it, unless it is built already from the same sources.
pub(crate) fn build(golang: &Golang) -> Outcome {
    let (cache, sources) = (cache()?, workspace::root().join("tests/peers/wire"));
    let (binary, stamp) = (cache.join("bin/wire"), cache.join("bin/wire.sources"));
    let current = contents(&sources)?;
    if binary.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == current) {
        println!("   {}: built already", binary.display());
        return Ok(());
    }
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(golang.go()).args(["build", "-p", "1", "-o"]).arg(&binary).arg(".");
    command.envs(golang.environment()).current_dir(&sources);
    // The environment of the tests is without a network; these sources come from Go's proxy.
    command.env("GOPROXY", "https://proxy.golang.org").env("GOFLAGS", "-mod=readonly");
    command.env("GOPATH", cache.join("go")).env("GOCACHE", cache.join("go-cache"));
    run::step("building the receiver of the tests (takes minutes)", &mut command)?;
    std::fs::write(stamp, current).map_err(failed)
}

/// Returns the folder that the tests look into.
fn cache() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").ok_or_else(|| Failure::unusable("HOME is not set"))?;
    let cache = Path::new(&home).join(".cache/flamelet/peers");
    std::fs::create_dir_all(cache.join("bin")).map_err(failed)?;
    Ok(cache)
}

/// Returns the sources as one text.
fn contents(folder: &Path) -> Result<String, Failure> {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).map_err(failed);
    Ok([read("go.mod")?, read("main.go")?, read("query.go")?].concat())
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of an error")]
fn failed(error: std::io::Error) -> Failure {
    Failure::failed(error.to_string())
}
