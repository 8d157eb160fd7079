//! Starts this test program again, as another user, behind a filter, or to be killed: it makes one recording and
//! prints the result.

use crate::programs::{folder, quiet};
use crate::seen::{frames, has};
use flamelet_record::{Checkpoint, CommandEnd, Progress, RecordOptions, Recorded, Target, record};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WHAT: &str = "FLAMELET_RECORD_HELPER";
const PROGRAM: &str = "FLAMELET_RECORD_PROGRAM";
const NOBODY: u32 = 65534;

/// Returns a command that makes a recording of `program` in a separate process; `what` selects the kind.
pub(crate) fn command(what: &str, program: &Path) -> Command {
    // Another user may not be able to read where the tests were built.
    let copy = folder().join("helper");
    if !copy.exists() {
        let part = folder().join("helper.part");
        crate::programs::copy(&std::env::current_exe().expect("this program"), &part);
        std::fs::rename(&part, &copy).expect("our own folder");
    }
    let mut command = Command::new(copy);
    command.args(["--exact", "helper::helper", "--nocapture"]).current_dir(folder());
    command.env(WHAT, what).env(PROGRAM, program).stdin(Stdio::null());
    command
}

/// Makes `command` run as the user nobody if this is root; any other user is as unprivileged. Returns whether it does.
pub(crate) fn as_nobody(command: &mut Command) -> bool {
    let is_root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0")));
    if is_root {
        // Without the groups of root too: std drops them when it changes the user.
        command.uid(NOBODY).gid(NOBODY);
    }
    is_root
}

/// The helper's output about its recording.
pub(crate) fn told(mut command: Command) -> String {
    let output = command.output().expect("our own program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("helper:")).collect();
    assert!(!lines.is_empty(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    lines.join("\n")
}

/// Not a test by itself: the other tests start it.
#[test]
fn helper() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let program = std::env::var_os(PROGRAM).expect("set with the other one");
    let mut options = RecordOptions::new(Target::Command(quiet(program.as_ref(), &["2", "100"])));
    // The shell waits for a signal, so that more than its loader and its start is recorded.
    const OPENED_BY_THE_LOOP: u64 = 40;
    let (mut joined, mut enough, mut enough_calls) = (None, u64::MAX, u64::MAX);
    let stop = AtomicBool::new(false);
    match what.as_str() {
        "cpu" => {}
        "off-cpu" => options.off_cpu = true,
        "syscalls" => options.syscalls = true,
        "everything" => options.target = Target::All,
        "process" => {
            let pid = program.to_str().and_then(|text| text.parse().ok()).expect("an id for a program");
            options.target = Target::Pids(vec![pid]);
        }
        "calls" => {
            options.target = Target::Command(quiet(program.as_ref(), &[]));
            (options.cpu, options.syscalls) = (false, true);
        }
        "openat" => {
            options.target = Target::Command(quiet(program.as_ref(), &[]));
            options.cpu = false;
            options.events = vec!["syscalls:sys_enter_openat".to_owned()];
        }
        "join" => {
            let child = quiet(program.as_ref(), &["1000000"]).spawn().expect("our own program");
            options.target = Target::Pids(vec![child.id()]);
            joined = Some(child);
            (options.cpu, options.syscalls) = (false, true);
            enough_calls = 1000;
        }
        "refused" => {
            let child = quiet(program.as_ref(), &["1000000"]).spawn().expect("our own program");
            options.target = Target::Pids(vec![child.id(), 1]);
            joined = Some(child);
            (options.cpu, options.syscalls) = (false, true);
        }
        "leave" => {
            // The process that it leaves behind opens a file on a signal, which comes after the command has ended.
            let script = "(trap 'echo well > left; exit' USR1; echo ready > ready; while :; do sleep 0.01; done) & \
                          while [ ! -s ready ]; do sleep 0.01; done; echo $! > left-id; exit 3";
            options.target = Target::Command(quiet(program.as_ref(), &["-c", script]));
            options.cpu = false;
            options.events = vec!["syscalls:sys_enter_openat".to_owned()];
        }
        "outlive" => {
            // It ends on a signal, which comes after the recording has ended.
            let script = "trap 'read x < /proc/self/stat || exit 9; exit 3' USR1; \
                          while read x < /proc/self/stat; do sleep 0.01; done; exit 9";
            options.target = Target::Command(quiet(program.as_ref(), &["-c", script]));
            options.cpu = false;
            options.events = vec!["syscalls:sys_enter_openat".to_owned()];
            enough = OPENED_BY_THE_LOOP;
        }
        saved => {
            options.target = Target::Command(quiet(program.as_ref(), &["1", "60000"]));
            options.checkpoint = Some(Checkpoint::to_file(saved, Duration::from_millis(50)));
        }
    }
    let mut look = |progress: &Progress| {
        let is_enough = progress.samples >= enough || progress.syscalls >= enough_calls;
        stop.fetch_or(is_enough, Ordering::Relaxed);
    };
    match record(options, &mut look, &stop) {
        Ok(recorded) => tell(recorded),
        Err(error) => println!("helper: {:?}: {error}", error.kind()),
    }
    if let Some(mut child) = joined {
        let runs_on = child.try_wait().expect("our own child").is_none();
        println!("helper: {}", if runs_on { "it runs on" } else { "it ended" });
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
}

fn tell(recorded: Recorded) {
    let Recorded { profile, summary, command, .. } = recorded;
    if std::env::var(WHAT).is_ok_and(|what| what == "leave") {
        let id = std::fs::read_to_string("left-id").expect("our own folder");
        // SAFETY: sends a signal to what our own child left, which has not ended.
        unsafe { libc::kill(id.trim().parse().expect("a pid"), libc::SIGUSR1) };
        while Path::new("/proc").join(id.trim()).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("helper: what was left ended {:?}", std::fs::read_to_string("left"));
    }
    let status = match command {
        Some(CommandEnd::Exited(status)) => format!("status {:?}", status.code()),
        Some(CommandEnd::Running(mut child)) => {
            // SAFETY: sends a signal to our own child.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
            format!("ended with {:?}", child.wait().expect("our own child").code())
        }
        None => String::new(),
    };
    let calls: Vec<String> = summary
        .syscalls
        .iter()
        .map(|call| format!("{}={}/{}", call.name, call.stats.calls, call.stats.errors))
        .collect();
    println!(
        "helper: {} samples, {} lost, rooted {:.4}, kernel {}, engine {}, often {:.3}, {status}, calls [{}], notes {:?}",
        summary.samples,
        summary.lost,
        summary.rooted_share(),
        summary.with_kernel,
        summary.engine,
        share_of_often(&profile),
        calls.join(" "),
        summary.notes
    );
}

/// Returns the share of one function in the sum of two functions of a test program.
fn share_of_often(profile: &flamelet_profile::Profile) -> f64 {
    let under = |function: &str| -> i64 {
        let there = profile.samples().filter(|sample| has(&frames(profile, sample), function));
        there.map(|sample| sample.values[0]).sum()
    };
    let (rarely, often) = (under("rarely"), under("often"));
    often as f64 / (rarely + often).max(1) as f64
}
