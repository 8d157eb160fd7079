//! Go's pprof, as a program that tests run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether a program is not there; then the test leaves out what needs it, and says so.
pub(crate) fn lacks(program: &str, is_there: bool) -> bool {
    if !is_there {
        flamelet_test_support::skip!("no {program} (`cargo xtask tools` prepares it)");
    }
    !is_there
}

pub(crate) fn runs(program: &OsStr, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

pub(crate) fn lacks_pprof() -> bool {
    lacks("pprof", built_pprof().is_some() || runs("go".as_ref(), "version"))
}

/// Go's pprof as `cargo xtask test` built it.
pub(crate) fn built_pprof() -> Option<PathBuf> {
    let built = std::env::var_os("FLAMELET_PPROF").map(PathBuf::from).or_else(|| {
        let test = std::env::current_exe().ok()?;
        Some(test.ancestors().nth(3)?.join("tools/pprof"))
    });
    built.filter(|path| path.is_file())
}

/// Go's pprof: the one that `cargo xtask test` built, else the one that `go` brings.
pub(crate) fn pprof() -> Command {
    built_pprof().map_or_else(
        || {
            let mut command = Command::new("go");
            command.args(["tool", "pprof"]);
            command
        },
        Command::new,
    )
}

/// pprof with a home of its own. It would wait for half as long again as the capture takes, and a slow machine needs
/// more than that to find names.
pub(crate) fn pprof_at_home(home: &Path) -> Command {
    let mut command = pprof();
    command.env("PPROF_TMPDIR", home).env("HOME", home).env("PPROF_BINARY_PATH", home).arg("-timeout=120");
    command
}

/// Runs pprof on a URL; what it printed.
#[track_caller]
pub(crate) fn run_pprof(arguments: &[&str], url: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = pprof_at_home(home.path());
    let output = command.args(arguments).arg(url).output().expect("pprof runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{url}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
