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

#[test]
fn a_daemon_lives_beside_perf_events() {
    let mut options = Options::with_frequency(999);
    options.engine = Engine::Perf;
    let session = cpu::start(&options).expect("starts");
    let engine = cpu::status().engine;
    let profile = session.finish();
    if engine != Some(Engine::Perf) {
        let comments: Vec<&str> = profile.comments().collect();
        flamelet_test_support::skip!("engine perf is not available here: {comments:?}");
    }
    // Where it is not, the fallback is tested once more.
    assert_survives("perf");
}

#[test]
fn a_daemon_lives_beside_the_interval_timer() {
    assert_survives("setitimer");
}

/// All files that a service links, except the one that starts threads.
#[test]
fn no_thread_of_ours_is_started_in_another_way() {
    const CRATES: [&str; 12] = [
        "capture",
        "flamelet",
        "preload",
        "preload-cpu",
        "preload-ledger",
        "profile",
        "remote",
        "report",
        "store",
        "symbol",
        "unwind",
        "view",
    ];
    const THE_WAY: &str = "unwind/src/live/spawn.rs";
    const ONLY_IN_TESTS: &str = "capture/src/model.rs";
    const ONLY_IN_THE_COMMAND: &str = "report/src/stacks/halves.rs";
    const OTHER_WAYS: [&str; 5] =
        ["thread::Builder", "thread::spawn", "thread::scope", "std::thread::{", "libc::pthread_create"];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let files: Vec<PathBuf> =
        CRATES.iter().flat_map(|name| rust_files(&crates.join(name).join("src"))).collect();
    assert!(files.iter().any(|file| file.ends_with(THE_WAY)), "{files:?}");
    let is_wrong = |line: &&str| OTHER_WAYS.iter().any(|way| line.contains(way));
    let may_not = |file: &&PathBuf| {
        ![THE_WAY, ONLY_IN_TESTS, ONLY_IN_THE_COMMAND].iter().any(|allowed| file.ends_with(allowed))
    };
    let wrong: Vec<String> = (files.iter().filter(may_not))
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).expect("a file of the project");
            let lines = outside_tests(&text).into_iter();
            let wrong = lines.filter(|line| !line.trim_start().starts_with("//")).filter(is_wrong);
            wrong.map(|line| format!("{}: {}", file.display(), line.trim())).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "use own_threads::spawn: {wrong:#?}");
}

/// Returns the lines of a file without those of modules that only tests have.
fn outside_tests(text: &str) -> Vec<&str> {
    let mut outside = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test") {
            outside.push(line);
            continue;
        }
        let item = lines.by_ref().find(|line| !line.starts_with("#[")).unwrap_or_default();
        let is_module = item.split_whitespace().any(|word| word == "mod") && item.ends_with('{');
        if is_module && lines.by_ref().all(|line| line != "}") {
            panic!("the end of {item} is missing");
        }
        if !is_module {
            outside.push(item);
        }
    }
    outside
}

#[test]
fn only_modules_of_tests_are_left_out() {
    let text = "one\n#[cfg(test)]\nuse two;\n#[cfg(test)]\n#[allow(x)]\npub(crate) mod faults {\n    three\n}\nfour\n\
                #[cfg(all(test, unix))]\nmod tests {\n    five\n    }\n}";
    assert_eq!(outside_tests(text), ["one", "use two;", "four"]);
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
