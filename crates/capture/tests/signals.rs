//! A program that blocks signals after the sampler started, and takes them by `sigwait` or `signalfd`, gets each of
//! them: no thread of the profiler does.

#![cfg(target_os = "linux")]

#[path = "support/signals.rs"]
mod signals;

use flamelet_capture::cpu::{self, Engine, Options};
use signals::{assert_survives, be_a_daemon};
use std::path::{Path, PathBuf};

/// Not a test by itself: the other tests start this program again to run it.
#[test]
fn child() {
    be_a_daemon(|mode| {
        let mut options = Options::with_frequency(999);
        options.engine = match mode {
            "timer" => Engine::Timer,
            "perf" => Engine::Perf,
            "setitimer" => Engine::Setitimer,
            other => panic!("no engine of the name {other}"),
        };
        cpu::start(&options).expect("starts")
    });
}

#[test]
fn a_daemon_lives_beside_the_timers() {
    assert_survives("timer");
}

/// If the kernel denies these events, with the fallback.
#[test]
fn a_daemon_lives_beside_perf_events() {
    assert_survives("perf");
}

#[test]
fn a_daemon_lives_beside_the_interval_timer() {
    assert_survives("setitimer");
}

/// All files that a service links, except the one that starts threads.
#[test]
fn no_thread_of_ours_is_started_in_another_way() {
    const CRATES: [&str; 9] =
        ["capture", "flamelet", "preload", "preload-cpu", "profile", "report", "symbol", "unwind", "view"];
    const THE_WAY: &str = "unwind/src/live/spawn.rs";
    const ONLY_IN_TESTS: &str = "capture/src/cpu/model.rs";
    const OTHER_WAYS: [&str; 5] =
        ["thread::Builder", "thread::spawn", "thread::scope", "std::thread::{", "libc::pthread_create"];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let files: Vec<PathBuf> =
        CRATES.iter().flat_map(|name| rust_files(&crates.join(name).join("src"))).collect();
    assert!(files.iter().any(|file| file.ends_with(THE_WAY)), "{files:?}");
    let is_wrong = |line: &str| OTHER_WAYS.iter().any(|way| line.contains(way));
    let may_not = |file: &&PathBuf| !file.ends_with(THE_WAY) && !file.ends_with(ONLY_IN_TESTS);
    let wrong: Vec<String> = (files.iter().filter(may_not))
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).expect("a file of the project");
            let outside_tests = text.lines().take_while(|line| !is_start_of_tests(line));
            let wrong = outside_tests.filter(|line| !line.trim_start().starts_with("//") && is_wrong(line));
            wrong.map(|line| format!("{}: {}", file.display(), line.trim())).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "use own_threads::spawn: {wrong:#?}");
}

/// Tests come last in a file.
fn is_start_of_tests(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder of the project")
        .map(|entry| entry.expect("readable").path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
