//! This test program again, as another user, behind a filter, or to be killed: it makes one recording and
//! prints how it went.

use crate::programs::{folder, quiet};
use flamelet_record::{Checkpoint, Options, Target, record};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const WHAT: &str = "FLAMELET_RECORD_HELPER";
const PROGRAM: &str = "FLAMELET_RECORD_PROGRAM";
const NOBODY: u32 = 65534;

/// A command that makes a recording of `program` in a process of its own; `what` says which.
pub(crate) fn command(what: &str, program: &Path) -> Command {
    // Another user may not be able to read where the tests were built.
    let copy = folder().join("helper");
    if !copy.exists() {
        let part = folder().join("helper.part");
        std::fs::copy(std::env::current_exe().expect("this program"), &part).expect("our own folder");
        std::fs::rename(&part, &copy).expect("our own folder");
    }
    let mut command = Command::new(copy);
    command.args(["--exact", "helper::helper", "--nocapture"]).current_dir(folder());
    command.env(WHAT, what).env(PROGRAM, program).stdin(Stdio::null());
    command
}

/// Lets `command` run as nobody, if this is root; else this user is as good as nobody.
pub(crate) fn as_nobody(command: &mut Command) {
    let is_root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0")));
    if is_root {
        // Without the groups of root too: std drops them when it changes the user.
        command.uid(NOBODY).gid(NOBODY);
    }
}

/// What the helper printed about its recording.
pub(crate) fn told(mut command: Command) -> String {
    let output = command.output().expect("our own program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("helper:"));
    line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

/// Not a test of its own: the other tests start it.
#[test]
fn helper() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let program = std::env::var_os(PROGRAM).expect("set with the other one");
    let mut options = Options::new(Target::Command(quiet(program.as_ref(), &["2", "100"])));
    match what.as_str() {
        "cpu" => {}
        "off-cpu" => options.off_cpu = true,
        "syscalls" => options.syscalls = true,
        "everything" => options.target = Target::All,
        saved => {
            options.target = Target::Command(quiet(program.as_ref(), &["1", "60000"]));
            options.checkpoint = Some(Checkpoint::to_file(saved, Duration::from_millis(50)));
        }
    }
    match record(options, &mut |_| {}, &AtomicBool::new(false)) {
        Ok(recorded) => {
            let summary = &recorded.summary;
            println!(
                "helper: {} samples, {} lost, rooted {:.4}, kernel {}, notes {:?}",
                summary.samples,
                summary.lost,
                summary.rooted_share(),
                summary.with_kernel,
                summary.notes
            );
        }
        Err(error) => println!("helper: {:?}: {error}", error.kind()),
    }
}
