//! Profiles with paths that are not regular files: nothing waits for them, and unrelated files are not shown.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use flamelet_tests::profiles;
use flamelet_tests::programs::{Answer, answer, command, flamelet};
use flamelet_tests::wire::ProfileFile;

/// Runs the command; fails the test if it does not end in time.
fn run_to_end(words: &[&str]) -> Answer {
    let mut run = command(flamelet());
    let child = run.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("flamelet starts");
    let id = child.id().to_string();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output().expect("its end")));
    let output = end.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-9", &id]).status();
        panic!("{words:?} waits for something")
    });
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Answer { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn pipe(name: &str) -> PathBuf {
    let path = profiles::scratch().join(name);
    let _ = std::fs::remove_file(&path);
    assert_eq!(answer(command(Path::new("mkfifo")).arg(&path)).status, Some(0));
    path
}

/// A profile of a mapping and a source file with this name.
fn profile_naming(name: &str, file: &Path) -> PathBuf {
    let named = file.to_str().expect("UTF-8");
    profiles::written(name, || {
        let mut profile = ProfileFile::new(&[("samples", "count")]);
        let mapping = profile.mapping(0x1000, 0x2000, 0, named, "0102030405060708");
        let function = profile.function("f", "f", named, 1);
        let named = profile.location(mapping, 0x1000, &[(function, 1, 0)]);
        let nameless = profile.location(mapping, 0x1010, &[]);
        profile.sample(&[named, nameless], &[1], &[]);
        profile.into_bytes()
    })
}

#[test]
fn a_mapping_that_is_no_file_is_not_waited_for() {
    let folder = profiles::scratch().to_owned();
    let targets = [pipe("mapped-pipe"), "/dev/zero".into(), "/dev/ptmx".into(), "/proc/kmsg".into(), folder];
    for (number, target) in targets.iter().enumerate() {
        let path = profile_naming(&format!("names-{number}.pb"), target).display().to_string();
        let out = profiles::scratch().join("named.html").display().to_string();
        let merged = profiles::scratch().join("named.pb.gz").display().to_string();
        let picture = profiles::scratch().join("named.svg").display().to_string();
        for words in [
            &["top", &path][..],
            &["info", &path],
            &["traces", &path],
            &["list", ".", &path],
            &["disasm", ".", &path],
            &["flame", "-o", &out, &path],
            &["merge", "-o", &merged, &path],
            &["symbolize", "-o", &merged, &path],
            &["graph", "-o", &picture, &path],
        ] {
            let answer = run_to_end(words);
            assert!(answer.status.is_some_and(|status| status < 3), "{words:?}: {answer:?}");
            assert!(!answer.stderr.contains("panicked"), "{words:?}: {}", answer.stderr);
        }
    }
}

#[test]
fn what_a_person_names_may_be_a_pipe() {
    let cpu = profiles::committed("go-cpu");
    let expected = run_to_end(&["top", cpu.to_str().expect("UTF-8")]);
    for script in ["exec \"$0\" top <(cat \"$1\")", "cat \"$1\" | \"$0\" top /dev/stdin"] {
        let mut shell = command(Path::new("bash"));
        let answer = answer(shell.args(["-c", script]).arg(flamelet()).arg(&cpu));
        assert_eq!(
            (answer.status, &answer.stdout),
            (Some(0), &expected.stdout),
            "{script}: {}",
            answer.stderr
        );
    }
}
