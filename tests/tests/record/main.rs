//! `flamelet record` and `cargo flamelet`, as a user runs them.

mod ending;
mod go;
mod killed;
mod load;
mod processes;
mod unheard;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use flamelet_tests::profiles;
use flamelet_tests::programs::{flamelet, run_flamelet};

fn scratch(name: &str) -> PathBuf {
    let folder = profiles::scratch().join("record");
    std::fs::create_dir_all(&folder).expect("our own folder");
    folder.join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Waits until a condition holds; returns false after a minute.
fn within_a_minute(is_so: impl Fn() -> bool) -> bool {
    (0..12_000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(5));
            false
        }
    })
}

/// Returns whether this user may record; prints a `SKIP:` line if not.
fn may_record() -> bool {
    let answer = run_flamelet(["doctor"]);
    assert!(answer.stdout.contains("perf_event_open"), "{answer:?}");
    let may = answer.status == Some(0);
    if !may {
        flamelet_test_support::skip!("nothing can be recorded here:\n{}", answer.stdout);
    }
    may
}

#[test]
fn the_name_picks_the_format_and_the_status_is_the_commands() {
    if !may_record() {
        return;
    }
    let starts =
        [("a.svg", "<?xml"), ("a.html", "<!"), ("a.folded", ""), ("a.speedscope.json", "{"), ("a.pb.gz", "")];
    for (name, start) in starts {
        let path = scratch(name);
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let answer = run_flamelet(["record", "-o", text(&path), "--", "sh", "-c", script]);
        assert_eq!(answer.status, Some(3), "{name}: {answer:?}");
        let written = std::fs::read(&path).expect("it was written");
        assert!(!written.is_empty() && written.starts_with(start.as_bytes()), "{name}");
        assert!(answer.stderr.contains(name) && answer.stderr.contains("0 lost"), "{answer:?}");
    }
    let killed = run_flamelet(["record", "-o", text(&scratch("k.pb.gz")), "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status, Some(128 + 9), "{killed:?}");
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let cases: [(&[&str], &str); 6] = [
        (&["record"], "give a command after --"),
        (&["record", "-p", "999999999"], "no process"),
        (&["record", "-F", "0", "--", "true"], "0 Hz"),
        (&["record", "-o", "a.nonsense", "--", "true"], "unknown output extension"),
        (
            &["record", "-o", text(&scratch("x.pb.gz")).to_owned().leak(), "--", "no-such-program"],
            "no-such-program",
        ),
        (&["doctor", "/no/such/file"], "/no/such/file"),
    ];
    for (words, part) in cases {
        let answer = run_flamelet(words.iter().copied());
        assert_eq!(answer.status, Some(2), "{words:?}: {answer:?}");
        assert!(answer.stderr.contains(part), "{words:?}: {answer:?}");
        assert_eq!(answer.stderr.trim_end().lines().count(), 1, "{words:?}: {answer:?}");
    }
}

#[test]
fn a_poor_recording_is_a_status_when_asked_for() {
    if !may_record() {
        return;
    }
    // This event does not occur here, so there are no samples.
    let path = scratch("poor.pb.gz");
    let mut words = vec!["record", "-e", "alignment-faults", "-o", text(&path), "--", "true"];
    assert_eq!(run_flamelet(words.iter().copied()).status, Some(0));
    words.insert(1, "--strict");
    let answer = run_flamelet(words.iter().copied());
    assert_eq!(answer.status, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("Quality: poor"), "{answer:?}");
}

#[test]
fn a_name_that_cannot_be_written_is_refused_before_anything_runs() {
    let (folder, ran) = (scratch("refused.svg"), scratch("it-ran"));
    let _ = std::fs::remove_file(&ran);
    std::fs::create_dir_all(&folder).expect("our own folder");
    let file = scratch("a-file");
    std::fs::write(&file, "").expect("our own folder");
    let cases = [
        (scratch("no-such-folder/x.svg"), "no such folder"),
        (scratch("no-such-folder/x.pb.gz"), "no such folder"),
        (folder, "is a folder"),
        (scratch("new.svg/"), "is a folder"),
        (file.join("x.svg"), "is a file, not a folder"),
        // Not even root can create files there.
        (PathBuf::from("/proc/x.svg"), "/proc/x.svg: "),
    ];
    for (path, why) in cases {
        for more in [&[][..], &["--heap"]] {
            let mut words = vec!["record", "-o", text(&path)];
            words.extend(more);
            words.extend(["--", "touch", text(&ran)]);
            let answer = run_flamelet(&words);
            assert_eq!(answer.status, Some(2), "{words:?}: {answer:?}");
            assert!(answer.stderr.contains(text(&path)) && answer.stderr.contains(why), "{answer:?}");
            assert_eq!(answer.stderr.lines().count(), 1, "{answer:?}");
            assert!(!ran.exists(), "{words:?}");
        }
    }
}

#[test]
fn what_cannot_be_written_is_written_elsewhere() {
    if !may_record() {
        return;
    }
    let elsewhere = scratch("elsewhere");
    let _ = std::fs::remove_dir_all(&elsewhere);
    std::fs::create_dir_all(&elsewhere).expect("our own folder");
    std::fs::write(elsewhere.join("full.pb.gz"), "somebody's own").expect("our own folder");
    // A full disk, and a folder that is removed during the recording.
    let full = scratch("full.pb.gz");
    let _ = std::fs::remove_file(&full);
    std::os::unix::fs::symlink("/dev/full", &full).expect("our own folder");
    let folder = scratch("gone");
    let gone = folder.join("gone.html");
    for (path, why) in [(&full, "No space left"), (&gone, "no such folder")] {
        std::fs::create_dir_all(&folder).expect("our own folder");
        let script = "rmdir \"$0\" 2>&-; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 4";
        let mut record = Command::new(flamelet());
        record.args(["record", "-o", text(path), "--", "sh", "-c", script, text(&folder)]);
        let answer = record.env("TMPDIR", &elsewhere).stdin(Stdio::null()).output().expect("the command");
        let errors = String::from_utf8_lossy(&answer.stderr);
        // The next step of a script would not find the file, so the status must not be 0.
        assert_eq!(answer.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why) && errors.contains("another place"), "{errors}");
        let saved = errors.lines().find_map(|line| line.strip_prefix("Wrote ")?.split("; ").next());
        let saved = PathBuf::from(saved.expect("it says where"));
        assert_eq!(saved.parent(), Some(elsewhere.as_path()), "{errors}");
        assert!(std::fs::metadata(&saved).is_ok_and(|file| file.len() > 100), "{errors}");
        if path == &full {
            let info = run_flamelet(["info", text(&saved)]);
            assert_eq!(info.status, Some(0), "{info:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(elsewhere.join("full.pb.gz")).expect("it stays"), "somebody's own");
    // If nothing can be written at all, that is an error.
    let mut record = Command::new(flamelet());
    record.args(["record", "-o", text(&full), "--", "true"]).env("TMPDIR", scratch("no-such-folder"));
    let answer = record.stdin(Stdio::null()).output().expect("the command");
    assert_eq!(answer.status.code(), Some(2), "{answer:?}");
}

#[test]
fn runs_are_repeated_beside_a_load_that_ends_with_them() {
    if !may_record() {
        return;
    }
    let (path, alive) = (scratch("repeated.pb.gz"), scratch("alive"));
    // Written beside and renamed: the load is killed at any moment, and the file must never be seen half written.
    let load =
        format!("echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 0.01; done | cat", alive.display());
    let wait = format!("until [ -s {} ]; do :; done", alive.display());
    let _ = std::fs::remove_file(&alive);
    let words = [
        "record",
        "--repeat",
        "3",
        "--load",
        &load,
        "--load-after",
        "0s",
        "-o",
        text(&path),
        "--",
        "sh",
        "-c",
        &wait,
    ];
    let answer = run_flamelet(words);
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let pid = std::fs::read_to_string(&alive).expect("the load ran");
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    let is_gone = || {
        !process.exists() || std::fs::read_to_string(process.join("stat")).is_ok_and(|s| s.contains(") Z"))
    };
    assert!(within_a_minute(is_gone), "the load goes on as {}", pid.trim());
}

/// A crate with two programs and a test, whose Cargo profiles strip all names.
fn stripped_project() -> PathBuf {
    let project = scratch("project");
    let manifest = "[package]\nname = \"tiny\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
                    [profile.release]\nstrip = true\n\
                    [profile.quick-release]\ninherits = \"release\"\nopt-level = 1\nstrip = \"symbols\"\n";
    let busy = "#[inline(never)] fn busy(n: u64) -> u64 { let mut x = n; for _ in 0..n { x = std::hint::black_box(x * 3 + 1 & 65535); } x }\n";
    let main = "fn main() { std::hint::black_box(busy(100_000_000)); std::process::exit(std::env::args().count() as i32 + 5) }\n";
    let test = "#[test] fn slow() { std::hint::black_box(busy(100_000_000)); }\n";
    let files = [
        ("Cargo.toml", manifest.to_owned()),
        ("src/main.rs", "fn main() {}\n".to_owned()),
        ("src/bin/busy.rs", format!("{busy}{main}")),
        ("tests/slow.rs", format!("{busy}{test}")),
    ];
    for (name, text) in files {
        let path = project.join(name);
        std::fs::create_dir_all(path.parent().expect("below the project")).expect("our own folder");
        std::fs::write(path, text).expect("our own folder");
    }
    project
}

#[test]
fn cargo_flamelet_builds_and_records_the_right_binary_with_names_and_lines() {
    if !may_record() {
        return;
    }
    let project = stripped_project();
    let cases: [(&[&str], i32, &str, &str); 3] = [
        (&["run", "--bin", "busy"], 7, "busy::busy", "src/bin/busy.rs:1"),
        (&["run", "--profile", "quick-release", "--bin", "busy"], 7, "busy::busy", "src/bin/busy.rs:1"),
        (&["test", "--profile=quick-release", "--test", "slow"], 0, "slow::busy", "tests/slow.rs:1"),
    ];
    for (words, status, function, line) in cases {
        let out = project.join("busy.pb.gz");
        let mut cargo = Command::new(flamelet().with_file_name("cargo-flamelet"));
        cargo.arg("flamelet").args(words).args(["--record", "-o", "--record", text(&out), "--", "slow"]);
        cargo.current_dir(&project).env("CARGO_TARGET_DIR", project.join("target")).stdin(Stdio::null());
        let answer = cargo.output().expect("it is next to the command");
        let errors = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(status), "{words:?}: {errors}");
        let top = run_flamelet(["top", "--granularity", "lines", text(&out)]);
        assert!(top.stdout.contains(function) && top.stdout.contains(line), "{words:?}: {top:?}\n{errors}");
    }
    assert!(project.join("target/quick-release/busy").exists(), "the requested profile");
}
