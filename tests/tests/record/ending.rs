//! How recordings end: Ctrl-C and similar signals, commands that end slowly or never, runs that fail. Commands that
//! could run for ever after a failed test have a CPU time limit.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use flamelet_tests::programs::{flamelet, run_flamelet};

use super::{may_record, scratch, text, within_a_minute};

/// For env(1): the caller of the tests may ignore signals, and all child processes would inherit that.
const USUAL_SIGNALS: &str = "--default-signal=INT,HUP,QUIT,TERM";

/// Returns a new, empty folder for one test.
pub(super) fn folder(name: &str) -> PathBuf {
    let folder = scratch(&format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("our own folder");
    folder
}

/// Returns `flamelet record` in `folder`, in its own session, since tests may run in a terminal.
fn record(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args([USUAL_SIGNALS, "setsid"]).arg(flamelet()).arg("record").args(words);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A running recording.
struct Started {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Started {
    /// Starts it and waits until its command has made the file `begun`.
    fn new(folder: &Path, words: &[&str]) -> Self {
        let mut child = record(folder, words).spawn().expect("the command");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        while !folder.join("begun").exists() {
            assert!(child.try_wait().expect("our own child").is_none(), "it ended before its command began");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, errors }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Returns its output up to the line that contains `part`.
    fn read_until(&mut self, part: &str) -> String {
        let mut all = String::new();
        while !all.lines().next_back().is_some_and(|line| line.contains(part)) {
            let read = self.errors.read_line(&mut all).expect("UTF-8");
            assert!(read > 0, "no {part:?} in {all}");
        }
        all
    }

    /// Returns its status and the rest of its output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("our own child").code(), rest)
    }
}

pub(super) fn assert_readable(profile: &Path) {
    let info = run_flamelet(["info", text(profile)]);
    assert_eq!(info.status, Some(0), "{info:?}");
}

/// Waits until the process whose id a file holds is gone.
fn assert_ends(id: &Path) {
    let id = std::fs::read_to_string(id).expect("it was started");
    let id: u32 = id.trim().parse().expect("a whole id");
    let stat = PathBuf::from(format!("/proc/{id}/stat"));
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
    assert!(within_a_minute(is_gone), "{id} goes on");
}

#[test]
fn ctrl_c_and_its_like_end_the_command_and_all_repetitions() {
    if !may_record() {
        return;
    }
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = folder(&format!("asked{signal}"));
        let script = "ulimit -t 60; echo run >> runs; trap 'echo > done; exit 5' INT TERM; echo > begun; while :; do :; done";
        let words = ["--repeat", "10", "-o", "a.pb.gz", "--", "sh", "-c", script];
        let started = Started::new(&folder, &words);
        started.signal(signal);
        let (status, errors) = started.end();
        assert_eq!(status, Some(5), "{signal}: {errors}");
        assert!(folder.join("done").exists(), "{signal}: {errors}");
        assert_eq!(std::fs::read_to_string(folder.join("runs")).expect("it ran"), "run\n", "{signal}");
        assert_readable(&folder.join("a.pb.gz"));
    }
}

#[test]
fn a_command_that_does_not_end_costs_no_recording() {
    if !may_record() {
        return;
    }
    let folder = folder("stubborn");
    let script = "ulimit -t 60; trap '' INT TERM; echo $$ > id; echo > begun; while :; do :; done";
    let mut started = Started::new(&folder, &["-o", "a.svg", "--", "sh", "-c", script]);
    started.signal("-INT");
    let errors = started.read_until("Waiting for the command");
    assert!(errors.contains("Wrote a.svg"), "{errors}");
    let picture = std::fs::read_to_string(folder.join("a.svg")).expect("it was written");
    assert!(picture.trim_end().ends_with("</svg>"));
    // A second Ctrl-C works whatever the command does.
    while started.child.try_wait().expect("our own child").is_none() {
        started.signal("-INT");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, errors) = started.end();
    assert_eq!(status, Some(128 + 9), "{errors}");
    assert_ends(&folder.join("id"));
}

#[test]
fn after_its_duration_a_command_that_does_not_end_is_left_running_and_reported() {
    if !may_record() {
        return;
    }
    let folder = folder("left");
    let script =
        "ulimit -t 60; trap '' TERM; echo $$ > id.new; mv id.new id; while [ ! -e go ]; do sleep 0.01; done";
    let mut record = record(&folder, &["--duration", "2", "-o", "a.pb.gz", "--", "sh", "-c", script]);
    // Not a pipe: the command has it too, and keeps it.
    record.stderr(std::fs::File::create(folder.join("errors")).expect("our own folder"));
    let status = record.status();
    std::fs::write(folder.join("go"), "").expect("our own folder");
    let errors = std::fs::read_to_string(folder.join("errors")).expect("our own folder");
    assert_eq!(status.expect("the command").code(), Some(0), "{errors}");
    assert!(errors.contains("is left running"), "{errors}");
    assert_readable(&folder.join("a.pb.gz"));
    assert_ends(&folder.join("id"));
}

#[test]
fn a_duration_ends_what_the_command_started_too_without_a_program_called_kill() {
    if !may_record() {
        return;
    }
    let folder = folder("family");
    // Only the programs that the scripts need.
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).expect("our own folder");
    for name in ["sh", "sleep", "mv"] {
        let found = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
        let found = found.iter().find(|path| path.exists()).expect("a shell");
        std::os::unix::fs::symlink(found, programs.join(name)).expect("our own folder");
    }
    let script = "sleep 1000 & echo $! > id.new; mv id.new id; sleep 1000; true";
    let load = "sleep 1000 & echo $! > load-id.new; mv load-id.new load-id; wait; true";
    let words =
        ["--load", load, "--load-after", "0s", "--duration", "3", "-o", "a.pb.gz", "--", "sh", "-c", script];
    let mut with_path = Command::new("env");
    with_path.args([USUAL_SIGNALS, "setsid", "env"]).arg(format!("PATH={}", programs.display()));
    with_path.arg(flamelet()).arg("record").args(words);
    with_path.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = with_path.output().expect("the command");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 15), "{errors}");
    assert_ends(&folder.join("id"));
    assert_ends(&folder.join("load-id"));
}

#[test]
fn runs_before_one_that_fails_are_kept_and_the_first_bad_status_counts() {
    if !may_record() {
        return;
    }
    let folder = folder("runs");
    let words = |script: &'static str| ["--repeat", "3", "-o", "a.pb.gz", "--", "sh", "-c", script];
    let script = "echo >> runs; [ -e failed ] || { echo > failed; exit 3; }";
    let output = record(&folder, &words(script)).output().expect("the command");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(std::fs::read_to_string(folder.join("runs")).expect("it ran"), "\n\n\n");

    let program = folder.join("once");
    std::fs::write(&program, "#!/bin/sh\nrm \"$0\"\n").expect("our own folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, open).expect("our own folder");
    let output = record(&folder, &["--repeat", "3", "-o", "b.pb.gz", "--", "./once"]).output();
    let output = output.expect("the command");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("run 2 failed: ./once") && errors.contains("Wrote b.pb.gz"), "{errors}");
    assert_readable(&folder.join("b.pb.gz"));
}

/// Runs `line` in the foreground of a new terminal.
pub(super) fn in_terminal(folder: &Path, line: &str) -> Command {
    let mut terminal = Command::new("env");
    terminal.args([USUAL_SIGNALS, "script"]);
    // Instead of script's shell, which the keys would reach too: Debian's ends by Ctrl-C, and the terminal with it.
    let line = format!("exec {line}");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(folder);
    terminal
}

#[test]
fn a_command_reads_from_the_terminal() {
    if !may_record() {
        return;
    }
    let folder = folder("terminal");
    let line = format!(
        "{} record -o a.pb.gz -- sh -c 'echo > begun; read line; echo \"$line\" > read; exit 6'",
        flamelet().display()
    );
    let mut terminal = in_terminal(&folder, &line);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("of bsdutils");
    let mut keys = child.stdin.take().expect("piped");
    while !folder.join("begun").exists() {
        assert!(child.try_wait().expect("our own child").is_none(), "it ended before its command began");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::io::Write::write_all(&mut keys, b"typed\n").expect("a pipe");
    let status = child.wait().expect("our own child");
    drop(keys);
    assert_eq!(status.code(), Some(6));
    assert_eq!(std::fs::read_to_string(folder.join("read")).expect("it has read"), "typed\n");
}

#[test]
fn ctrl_c_at_the_terminal_reaches_the_command_once() {
    if !may_record() {
        return;
    }
    let folder = folder("keys");
    let script =
        "ulimit -t 60; trap 'echo >> heard' INT; echo > begun; while [ ! -e go ]; do :; done; exit 7";
    std::fs::write(folder.join("work"), script).expect("our own folder");
    let line = format!("{} record -o a.pb.gz -- sh ./work", flamelet().display());
    let mut terminal = in_terminal(&folder, &line);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("of bsdutils");
    let mut keys = child.stdin.take().expect("piped");
    let mut shown = BufReader::new(child.stdout.take().expect("piped"));
    while !folder.join("begun").exists() {
        assert!(child.try_wait().expect("our own child").is_none(), "it ended before its command began");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::io::Write::write_all(&mut keys, b"\x03").expect("a pipe");
    let mut line = String::new();
    while !line.contains("Waiting for the command") {
        line.clear();
        assert!(shown.read_line(&mut line).expect("UTF-8") > 0, "it is said what is waited for");
    }
    // Both got the signal, and the recording is written.
    assert_readable(&folder.join("a.pb.gz"));
    std::fs::write(folder.join("go"), "").expect("our own folder");
    let mut rest = Vec::new();
    shown.read_to_end(&mut rest).expect("a pipe");
    assert_eq!(child.wait().expect("our own child").code(), Some(7), "{}", String::from_utf8_lossy(&rest));
    assert_eq!(std::fs::read_to_string(folder.join("heard")).expect("it was interrupted"), "\n");
}

#[test]
fn ctrl_c_ends_the_viewer_after_a_recording() {
    if !may_record() {
        return;
    }
    let folder = folder("viewer");
    let mut child = record(&folder, &["--view", "-o", "a.pb.gz", "--", "true"]).spawn().expect("the command");
    let errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = errors.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("press Ctrl-C to stop")));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().expect("our own child").signal(), Some(2));
}
