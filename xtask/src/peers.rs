//! `cargo xtask tools --peers`: Pyroscope itself with its command `profilecli`, Parca itself, the part of Alloy that scrapes,
//! OpenTelemetry's collector and its checker of profiles, a service under Pyroscope's agent for Rust, and a receiver made of the
//! code of Pyroscope's, Parca's and OpenTelemetry's own protocols, for the tests in `tests/tests/peers`.
//!
//! They take minutes to build, so they are built only on request, at low priority, into the user's cache, which all
//! clones share. The files `go.mod` in `tests/peers` pin the versions of what is not a program of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::golang::Golang;
use crate::{Failure, Outcome, run, workspace};

/// A peer that is built from its modules.
#[derive(Debug)]
struct Peer {
    /// The modules, and the folder of each in the first.
    modules: &'static [(&'static str, &'static str)],
    /// Programs in `tests/peers` that use internal packages of the first, and become commands of it.
    own: &'static [&'static str],
    /// Files that would make Go look for sources that no module contains.
    without: &'static [&'static str],
    /// Further flags for the linker.
    linker_flags: &'static str,
    /// Build tags.
    tags: &'static str,
    /// The programs; the last one's presence says that all are built.
    programs: &'static [&'static str],
}

/// Pyroscope's module replaces its interface by a folder that the module does not contain: the interface is a module of
/// its own.
const PYROSCOPE: Peer = Peer {
    modules: &[
        ("github.com/grafana/pyroscope@v1.12.0", ""),
        ("github.com/grafana/pyroscope/api@v1.2.0", "api"),
    ],
    own: &[],
    without: &["go.work", "go.work.sum"],
    linker_flags: "",
    tags: "",
    programs: &["profilecli", "pyroscope"],
};

/// Parca's module has no built page: its server then has none. A package that it uses refers to a function of Go's runtime
/// that Go hides since version 1.23, and, unless told to leave out its assembly, to one that is gone since 1.27.
const PARCA: Peer = Peer {
    modules: &[("github.com/parca-dev/parca@v0.21.0", "")],
    own: &[],
    without: &[],
    linker_flags: "-checklinkname=0",
    tags: "purego",
    programs: &["parca"],
};

/// The part of Grafana Alloy that scrapes profiles.
const ALLOY: Peer = Peer {
    modules: &[("github.com/grafana/alloy@v1.0.0", ""), ("github.com/grafana/alloy/syntax@v0.1.0", "syntax")],
    own: &["alloy-scrape"],
    without: &[],
    linker_flags: "-checklinkname=0",
    tags: "purego",
    programs: &["alloy-scrape"],
};

/// OpenTelemetry's checker of profiles.
const PROFCHECK: Peer = Peer {
    modules: &[("github.com/open-telemetry/sig-profiling/profcheck@v0.0.0-20260820050030-741ed93c4d95", "")],
    own: &[],
    without: &[],
    linker_flags: "",
    tags: "",
    programs: &["profcheck"],
};

/// Builds what is not built already from the same sources.
pub(crate) fn build(golang: &Golang) -> Outcome {
    let cache = cache()?;
    for name in ["wire", "otelcol"] {
        let sources = own_sources(name);
        once(&cache, name, &contents(&sources)?, || {
            let mut command = go(golang, &cache, &sources, "-mod=readonly");
            command.args(["build", "-p", "1", "-o"]).arg(cache.join("bin").join(name)).arg(".");
            run::step(&format!("building {name} of the tests (takes minutes)"), &mut command)
        })?;
    }
    for peer in [&PYROSCOPE, &PARCA, &ALLOY] {
        let name = peer.programs.last().copied().unwrap_or_default();
        let own: Result<Vec<String>, Failure> =
            peer.own.iter().map(|own| contents(&own_sources(own))).collect();
        let stamp = format!("{peer:?}{}", own?.concat());
        once(&cache, name, &stamp, || from_modules(golang, &cache, name, peer))?;
    }
    agent(&cache)?;
    // Some mirrors of modules do not have it.
    once(&cache, "profcheck", &format!("{PROFCHECK:?}"), || {
        from_modules(golang, &cache, "profcheck", &PROFCHECK)
    })
    .unwrap_or_else(|failure| {
        println!("   without OpenTelemetry's checker of profiles: {}", failure.message);
    });
    Ok(())
}

/// Builds a service under Pyroscope's published agent for Rust.
fn agent(cache: &Path) -> Outcome {
    let folder = workspace::root().join("bench");
    let mut sources = std::fs::read_to_string(folder.join("live/Cargo.toml")).map_err(failed)?;
    sources.push_str(&contents(&folder.join("live/src"))?);
    once(cache, "pyroscope-agent", &sources, || {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(workspace::cargo().get_program()).current_dir(&folder);
        command.args(["build", "--release", "--package", "bench-live", "--features", "pyroscope"]);
        command.arg("--target-dir").arg(folder.join("target"));
        run::step("building Pyroscope's agent for Rust", &mut command)?;
        let copied =
            std::fs::copy(folder.join("target/release/bench-live"), cache.join("bin/pyroscope-agent"));
        copied.map(drop).map_err(failed)
    })
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

/// Builds the programs of a peer.
fn from_modules(golang: &Golang, cache: &Path, name: &str, peer: &Peer) -> Outcome {
    let sources = cache.join(name);
    let _ = std::fs::remove_dir_all(&sources);
    for (module_name, folder) in peer.modules {
        copy(&module(golang, cache, module_name)?, &sources.join(folder))?;
    }
    for own in peer.own {
        copy(&own_sources(own), &sources.join("cmd").join(own))?;
    }
    for file in peer.without {
        std::fs::remove_file(sources.join(file)).map_err(failed)?;
    }
    for program in peer.programs {
        let mut command = go(golang, cache, &sources, "-mod=mod");
        command.env("GOSUMDB", "off").args(["build", "-p", "1", "-ldflags", peer.linker_flags]);
        command.args(["-tags", peer.tags, "-o"]);
        command.arg(cache.join("bin").join(program));
        command.arg(format!("./cmd/{program}"));
        run::step(&format!("building {program} (takes minutes)"), &mut command)?;
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

/// Returns a program that is built already.
pub(crate) fn program(name: &str) -> Result<PathBuf, Failure> {
    let program = cache()?.join("bin").join(name);
    match program.is_file() {
        true => Ok(program),
        false => {
            Err(Failure::unusable(format!("{name} is not built; `cargo xtask tools --peers` builds it")))
        }
    }
}

/// Returns the folder that the tests look into.
fn cache() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").ok_or_else(|| Failure::unusable("HOME is not set"))?;
    let cache = Path::new(&home).join(".cache/flamelet/peers");
    std::fs::create_dir_all(cache.join("bin")).map_err(failed)?;
    Ok(cache)
}

/// Returns the folder of a program of our own.
fn own_sources(name: &str) -> PathBuf {
    workspace::root().join("tests/peers").join(name)
}

/// Returns the sources as one text.
fn contents(folder: &Path) -> Result<String, Failure> {
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "go" || end == "mod" || end == "rs"));
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).map_err(failed)).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of an error")]
fn failed(error: std::io::Error) -> Failure {
    Failure::failed(error.to_string())
}
