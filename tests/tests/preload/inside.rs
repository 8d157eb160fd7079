//! `flamelet record` where `perf_event_open` is forbidden: the command is sampled from inside.

use std::path::Path;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{answer, command, flamelet};

use crate::recording::{Recording, compiled, read, sum_of};

const FREQUENCY: u64 = 499;
const NANOS: u64 = 1_000_000_000;

/// `flamelet record -- WORDS`, behind a filter as containers have it.
pub(crate) fn record_forbidden(name: &str, words: &[&Path]) -> Recording {
    let out = scratch().join(format!("{name}.pb.gz"));
    let mut recorder = command(&compiled("forbids.c", "forbids", &[]));
    recorder
        .arg(flamelet())
        .args(["record", "-F", &FREQUENCY.to_string(), "-o"])
        .arg(&out)
        .arg("--")
        .args(words);
    let said = answer(&mut recorder);
    Recording { profile: read(&out, &said.stderr), said }
}

/// What `function` printed: the CPU time that it used, and how much of that may not be in its samples.
fn used_by(function: &str, printed: &str) -> (i64, u64) {
    let line = printed.lines().find_map(|line| line.strip_prefix(function));
    let numbers = line.and_then(|line| line.trim().split_once(' '));
    let (used, doubt) = numbers.unwrap_or_else(|| panic!("{function} did not end: {printed}"));
    (used.parse().expect("a number"), doubt.parse().expect("a number"))
}

#[test]
fn a_command_is_sampled_from_inside_with_its_threads_and_children() {
    let program = compiled("busy.c", "busy", &[]);
    let recording = record_forbidden("busy", &[&program]);
    let said = &recording.said.stderr;
    assert_eq!(recording.said.status, Some(4), "{said}");
    assert!(said.contains("seccomp") && said.contains("--cap-add PERFMON"), "{said}");
    assert!(said.contains("sampled from inside"), "{said}");
    for function in ["busy_parent", "busy_child", "busy_started", "busy_thread"] {
        let [_, nanos] = sum_of::<2>(&recording.profile, function, Some("busy"));
        let (used, doubt) = used_by(function, &recording.said.stdout);
        // The first sample and the last may each be early or late by a period, and by a tick of at most 10 ms.
        let tolerance = doubt + 2 * (NANOS / FREQUENCY + NANOS / 100);
        println!("{function}: {nanos} of {used} ns, give or take {tolerance}");
        assert!(nanos.abs_diff(used) <= tolerance, "{function}: {nanos} of {used} ns\n{said}");
    }
}

#[test]
fn a_kill_leaves_what_was_saved_before() {
    let program = compiled("busy.c", "busy", &[]);
    let recording = record_forbidden("busy-killed", &[&program, Path::new("killed")]);
    assert_eq!(recording.said.status, Some(128 + 9), "{}", recording.said.stderr);
    let [_, nanos] = sum_of(&recording.profile, "spin", None);
    assert!(nanos > 0, "{}", recording.said.stderr);
}

#[test]
fn what_cannot_be_done_from_inside_names_the_cause() {
    let mut recorder = command(&compiled("forbids.c", "forbids", &[]));
    recorder.arg(flamelet()).args(["record", "--off-cpu", "--"]).arg(compiled("busy.c", "busy", &[]));
    let said = answer(&mut recorder);
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("seccomp"), "{}", said.stderr);
}
