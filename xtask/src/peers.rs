//! `cargo xtask tools --peers`: Pyroscope itself with its command `profilecli`, and a receiver made of the code of
//! Pyroscope's, Parca's and OpenTelemetry's own protocols, for the tests in `tests/tests/peers`.
//!
//! They take minutes to build, so they are built only on request, at low priority, into the user's cache, which all
//! clones share. `tests/peers/wire/go.mod` pins the versions of the receiver.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::golang::Golang;
use crate::{Failure, Outcome, run, workspace};

/// Pyroscope, whose module replaces its interface by a folder that the module does not contain: the interface is a module
/// of its own.
const PYROSCOPE: (&str, &str) =
    ("github.com/grafana/pyroscope@v1.12.0", "github.com/grafana/pyroscope/api@v1.2.0");

/// Builds what is not built already from the same sources.
pub(crate) fn build(golang: &Golang) -> Outcome {
    let cache = cache()?;
    let sources = workspace::root().join("tests/peers/wire");
    once(&cache, "wire", &contents(&sources)?, || {
        let mut command = go(golang, &cache, &sources, "-mod=readonly");
        command.args(["build", "-p", "1", "-o"]).arg(cache.join("bin/wire")).arg(".");
        run::step("building the receiver of the tests (takes minutes)", &mut command)
    })?;
    once(&cache, "pyroscope", &format!("{PYROSCOPE:?}"), || pyroscope(golang, &cache))
}

/// Runs `build` unless the program `name` was built from these sources.
fn once(cache: &Path, name: &str, sources: &str, build: impl FnOnce() -> Outcome) -> Outcome {
    let (binary, stamp) = (cache.join("bin").join(name), cache.join("bin").join(format!("{name}.sources")));
    if binary.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        println!("   {}: built already", binary.display());
        return Ok(());
    }
    build()?;
    std::fs::write(stamp, sources).map_err(failed)
}

/// Builds Pyroscope and profilecli from their modules.
fn pyroscope(golang: &Golang, cache: &Path) -> Outcome {
    let sources = cache.join("pyroscope");
    let _ = std::fs::remove_dir_all(&sources);
    std::fs::create_dir_all(&sources).map_err(failed)?;
    copy(&module(golang, cache, PYROSCOPE.0)?, &sources)?;
    copy(&module(golang, cache, PYROSCOPE.1)?, &sources.join("api"))?;
    for workspace in ["go.work", "go.work.sum"] {
        std::fs::remove_file(sources.join(workspace)).map_err(failed)?;
    }
    // The program last: its presence says that all is built.
    for name in ["profilecli", "pyroscope"] {
        let mut command = go(golang, cache, &sources, "-mod=mod");
        command.env("GOSUMDB", "off").args(["build", "-p", "1", "-o"]).arg(cache.join("bin").join(name));
        command.arg(format!("./cmd/{name}"));
        run::step(&format!("building {name} (takes minutes)"), &mut command)?;
    }
    std::fs::remove_dir_all(sources).map_err(failed)
}

/// Downloads a module. Returns its folder.
fn module(golang: &Golang, cache: &Path, module: &str) -> Result<PathBuf, Failure> {
    let mut command = go(golang, cache, cache, "-mod=mod");
    let output = command.args(["mod", "download", "-json", module]).output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let folder = text.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    folder.map(PathBuf::from).ok_or_else(|| Failure::failed(format!("{module} cannot be downloaded: {text}")))
}

/// Copies the contents of a folder. Go's own are read-only, the copy is not.
fn copy(from: &Path, to: &Path) -> Outcome {
    std::fs::create_dir_all(to).map_err(failed)?;
    let mut command = Command::new("cp");
    command.args(["-R", "--no-preserve=mode"]).arg(from.join(".")).arg(to);
    run::step(&format!("copying {}", from.display()), &mut command)
}

/// Returns a call of Go at low priority, with a network: the environment of the tests is without one.
fn go(golang: &Golang, cache: &Path, folder: &Path, flags: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(golang.go());
    command.envs(golang.environment()).current_dir(folder);
    command.env_remove("GOPROXY").envs(std::env::var_os("GOPROXY").map(|proxy| ("GOPROXY", proxy)));
    command.env("GOFLAGS", flags).env("GOPATH", cache.join("go")).env("GOCACHE", cache.join("go-cache"));
    command
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
