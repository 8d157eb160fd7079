//! `flamelet run strace` and `flamelet run bpftrace` as whole commands: with a command, and attached to a process that
//! continues afterwards.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use flamelet_tests::profiles;
use flamelet_tests::programs::{self, Answer, json_of, run_flamelet};

/// The program of the other tests, with frame pointers, which bpftrace needs to walk stacks.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = profiles::scratch().join(format!("watched-{}", std::process::id()));
        let source = programs::repository().join("crates/formats/tests/data/fixture.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut build = Command::new(rustc);
        build.args(["--edition=2024", "--crate-name=fixture", "-g", "-Copt-level=1"]);
        build.args(["-Cforce-frame-pointers=yes", "-o"]).arg(&program).arg(source);
        assert!(build.status().expect("rustc starts").success(), "the program does not build");
        program.to_str().expect("UTF-8").to_owned()
    })
}

/// A process that lives until the test ends, however it ends.
struct Living(Child);

impl Living {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        Self(command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `flamelet run` with these words after its own, and returns the folder of the run.
fn run(name: &str, words: &[&str]) -> PathBuf {
    let folder = profiles::scratch().join(format!("run-tools-{}", std::process::id()));
    let (tool, words) = words.split_first().expect("a tool");
    let mut all = vec!["run", tool, "-o", folder.to_str().expect("UTF-8"), "--name", name];
    all.extend(words);
    let answer: Answer = run_flamelet(all);
    assert_eq!(answer.status, Some(0), "{name}: {}", answer.stderr);
    let runs: Vec<PathBuf> =
        std::fs::read_dir(folder.join(name)).expect("runs").map(|run| run.expect("a run").path()).collect();
    let [run] = &runs[..] else { panic!("{name}: one run and not {runs:?}") };
    run.clone()
}

/// Returns the flat share of a function in the pprof file of a run.
fn share(run: &Path, sample_index: &str, function: &str) -> f64 {
    let file = run.join("profile.pb.gz");
    let file = file.to_str().expect("UTF-8");
    let top = json_of([
        "top",
        "--json",
        "--nodecount=0",
        "--nodefraction=0",
        "--noinlines",
        "--sample-index",
        sample_index,
        file,
    ]);
    let rows = top["rows"].as_array().expect("rows").iter();
    let flat: f64 =
        rows.filter(|row| row["name"] == function).map(|row| row["flat"].as_f64().unwrap_or(0.0)).sum();
    flat / top["total"].as_f64().expect("a total")
}

/// Returns whether bpftrace can load a program here, which needs root and support by the kernel.
fn bpftrace_is_allowed() -> bool {
    let tried = Command::new("bpftrace").args(["-e", "BEGIN { exit(); }"]).output();
    let allowed = tried.as_ref().is_ok_and(|output| output.status.success());
    if !allowed {
        flamelet_test_support::skip!("bpftrace may not load programs here: {tried:?}");
    }
    allowed
}

#[test]
fn strace_around_a_command_and_attached() {
    let count = "for i in 1 2 3 4 5 6 7; do cat /dev/null; done";
    let around = run("around", &["strace", "--", "sh", "-c", count]);
    assert!(share(&around, "calls", "execve") > 0.0);
    let log = std::fs::read_to_string(around.join("strace.log")).expect("the raw file");
    assert!(log.matches("execve(").count() >= 8, "children are followed");

    let mut living = Living::start(&["sh", "-c", "while :; do cat /dev/null; done"]);
    let attached = run("attached", &["strace", "--duration", "4", "-p", &living.pid()]);
    assert!(living.is_alive(), "a process that was there before goes on");
    assert!(share(&attached, "calls", "execve") > 0.0);
}

/// A process that is nearly always in the middle of a vfork, as shells are when they start programs.
const FORKING: &str = r"
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>
int main(void) {
    for (;;) {
        for (int i = 0; i < 100; i++) syscall(SYS_getppid);
        if (vfork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            usleep(300000);
            _exit(0);
        }
    }
}
";

/// A deadlock: strace waits for the process to stop, the process for its child, and the child for strace.
#[test]
fn strace_that_cannot_detach_is_not_waited_for() {
    let (source, program) = (profiles::scratch().join("forking.c"), profiles::scratch().join("forking"));
    std::fs::write(&source, FORKING).expect("our own folder");
    let made = Command::new("cc").arg("-o").args([&program, &source]).status();
    assert!(made.is_ok_and(|status| status.success()), "the program does not build");
    let mut living = Living::start(&[program.to_str().expect("UTF-8")]);
    let attached = run("forking", &["strace", "--duration", "3", "-p", &living.pid()]);
    assert!(living.is_alive(), "a process that was there before goes on");
    assert!(share(&attached, "calls", "getppid") > 0.5);
}

/// A command that cannot start is detected before the tool starts, and leaves no folder behind.
#[test]
fn a_command_that_is_not_there_leaves_nothing_behind() {
    let folder = profiles::scratch().join(format!("not-there-{}", std::process::id()));
    let path = folder.to_str().expect("UTF-8");
    for (program, told) in [("no-such-program", "in PATH"), ("./no-such-program", "no such program")] {
        let answer = run_flamelet(["run", "strace", "-o", path, "--", program]);
        assert_eq!((answer.status, answer.stdout.as_str()), (Some(2), ""), "{}", answer.stderr);
        assert!(answer.stderr.contains(program) && answer.stderr.contains(told), "{}", answer.stderr);
        assert!(!folder.exists(), "{path} was left behind");
    }
}

/// strace starts, and then has nothing to write.
#[test]
fn a_run_that_fails_leaves_nothing_behind() {
    let folder = profiles::scratch().join(format!("failed-{}", std::process::id()));
    let path = folder.to_str().expect("UTF-8");
    let answer = run_flamelet(["run", "strace", "-o", path, "--tool-option=--no-such-option", "--", "true"]);
    assert_eq!(answer.status, Some(2), "{}", answer.stderr);
    assert!(!folder.exists(), "{path} was left behind");
}

#[test]
fn strace_ends_a_command_when_its_time_is_over() {
    let ended = run("ended", &["strace", "--duration", "4", "--", "sleep", "1000"]);
    assert!(share(&ended, "calls", "execve") > 0.0);
    let log = std::fs::read_to_string(ended.join("strace.log")).expect("the raw file");
    assert!(log.contains("+++ killed by SIGTERM +++"), "{log}");
}

fn assert_bpftrace_saw_the_leaf(run: &Path) {
    let leaf = share(run, "samples", "fixture::leaf");
    let raw = || std::fs::read_to_string(run.join("bpftrace.txt")).expect("the raw file");
    assert!(leaf > 0.5, "{leaf} of {}", raw());
}

#[test]
fn bpftrace_names_the_functions_of_a_command_that_has_ended() {
    if !bpftrace_is_allowed() {
        return;
    }
    let run = run("samples", &["bpftrace", "--", program(), "20000"]);
    assert_bpftrace_saw_the_leaf(&run);
}

#[test]
fn bpftrace_attaches_for_a_while() {
    if !bpftrace_is_allowed() {
        return;
    }
    let mut living = Living::start(&[program(), "1000000000", "forget"]);
    let run = run("living", &["bpftrace", "--duration", "2", "-p", &living.pid()]);
    assert!(living.is_alive(), "a process that was there before goes on");
    assert_bpftrace_saw_the_leaf(&run);
}

#[test]
fn bpftrace_runs_a_program_of_ones_own() {
    let spaces = run_flamelet(["run", "bpftrace", "--", "echo", "two words"]);
    assert_eq!(spaces.status, Some(2), "{}", spaces.stderr);
    assert!(spaces.stderr.contains("put the command into a script"), "{}", spaces.stderr);
    if !bpftrace_is_allowed() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_write /pid == cpid/ { @written = count(); }";
    let folder = run("written", &["bpftrace", "--script", script, "--", "echo", "word"]);
    assert!(share(&folder, "samples", "@written") > 0.99);
}

#[test]
fn the_status_is_the_commands() {
    let folder = profiles::scratch().join(format!("status-{}", std::process::id()));
    let path = folder.to_str().expect("UTF-8");
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 128 + 9)] {
        let answer = run_flamelet(["run", "strace", "-o", path, "--", "sh", "-c", script]);
        assert_eq!(answer.status, Some(status), "{script}: {}", answer.stderr);
        assert!(answer.stdout.contains("execve"), "{script}: {answer:?}");
    }
}

/// `flamelet run strace` of a shell's script in a session of its own, with the signals that its caller may ignore.
fn strace_of(script: &str, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP,TERM", "setsid"]).arg(programs::flamelet());
    command
        .args(["run", "strace", "--name", "it", "-o"])
        .arg(folder)
        .args(words)
        .args(["--", "sh", "-c", script]);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn own_folder(name: &str) -> PathBuf {
    let folder = profiles::scratch().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    folder
}

fn signal(process: &Living, name: &str) {
    let sent = Command::new("kill").args([name, &process.pid()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Waits for the process to end, for at most a minute.
fn end_of(process: &mut Living) -> std::process::ExitStatus {
    for _ in 0..12_000 {
        if let Some(status) = process.0.try_wait().expect("our own child") {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("it goes on");
}

#[test]
fn a_closed_terminal_ends_a_run_as_ctrl_c_does() {
    for name in ["-INT", "-HUP"] {
        let folder = own_folder(&format!("asked{name}"));
        let script = "ulimit -t 60; echo > begun; while :; do :; done";
        let mut run = Living(strace_of(script, &folder, &[]).spawn().expect("the command"));
        while !folder.join("begun").exists() {
            assert!(run.is_alive(), "{name}: it ended before its command began");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        signal(&run, name);
        assert_eq!(end_of(&mut run).code(), Some(0), "{name}");
        let runs = std::fs::read_dir(folder.join("it")).expect("runs");
        let runs: Vec<PathBuf> = runs.map(|run| run.expect("a run").path()).collect();
        assert!(runs[0].join("profile.pb.gz").exists(), "{name}: {runs:?}");
    }
}

#[test]
fn ctrl_c_ends_the_viewer_after_a_run() {
    use std::io::BufRead;
    use std::os::unix::process::ExitStatusExt;
    let mut run = strace_of("true", &own_folder("viewed"), &["--view"]);
    let mut run = Living(run.stderr(Stdio::piped()).spawn().expect("the command"));
    let errors = std::io::BufReader::new(run.0.stderr.take().expect("piped"));
    assert!(errors.lines().map_while(Result::ok).any(|line| line.contains("press Ctrl-C to stop")));
    signal(&run, "-INT");
    assert_eq!(end_of(&mut run).signal(), Some(2));
}
