//! `flamelet record` where `perf_event_open` is forbidden: the command is sampled from inside.

use std::path::Path;

use flamelet_profile::{ProfileBuilder, pprof};
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

/// Each lives for less than a tick of the kernel, so that most are never interrupted.
#[test]
fn threads_of_a_millisecond_have_their_share() {
    let recording = record_forbidden("brief", &[&compiled("brief.c", "brief", &[])]);
    let (used, is_ordinary) = used_by("brief", &recording.said.stdout);
    let [_, nanos] = sum_of::<2>(&recording.profile, "brief", None);
    println!("{nanos} of {used} ns");
    // Some 375 ticks of 4 ms, or 150 of 10 ms, each of which may fall on one side or the other. Beside other programs,
    // ticks miss nearly all threads without real-time priority.
    let least = if is_ordinary == 0 { used / 2 } else { 1 };
    assert!((least..used * 3 / 2).contains(&nanos), "{nanos} of {used} ns\n{}", recording.said.stderr);
}

/// Each of the programs is too short for a sample, or has one: alone it would have any rate.
#[test]
fn the_rate_of_a_script_is_that_of_all_its_programs() {
    let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); sh -c 'j=0; while [ $j -lt 6000 ]; do j=$((j+1)); done'; done";
    // Each shell works for some milliseconds, and ends by `_exit`, which does not wait for ever for a busy machine.
    let runs = (0..3).map(|_| {
        let recording = record_forbidden("script", &["sh", "-c", script].map(Path::new));
        let quality = recording.profile.quality.expect("a recording has it");
        let hertz = quality.achieved_millihertz / 1000;
        assert!(hertz <= FREQUENCY, "{quality:?}\n{}", recording.said.stderr);
        assert!(!recording.said.stderr.contains("sample from outside"), "{}", recording.said.stderr);
        let labels = |sample| recording.profile.labels(sample).to_vec();
        let processes: std::collections::BTreeSet<_> = (recording.profile.samples())
            .flat_map(|sample| labels(sample.labels))
            .filter(|label| recording.profile.string(label.key) == "pid")
            .map(|label| (label.text, label.number))
            .collect();
        processes.len()
    });
    let seen: Vec<usize> = runs.take_while(|seen| *seen < 10).collect();
    assert!(seen.len() < 3, "{seen:?} of 60 processes were seen");
}

#[test]
fn a_static_program_gets_advice_about_cpu_time() {
    let mut recorder = command(&compiled("forbids.c", "forbids", &[]));
    let program = compiled("known.c", "static", &["-static"]);
    recorder
        .arg(flamelet())
        .args(["record", "-o"])
        .arg(scratch().join("static.pb.gz"))
        .arg("--")
        .arg(program);
    let said = answer(&mut recorder);
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("statically linked"), "{}", said.stderr);
    assert!(said.stderr.contains("allow perf_event_open"), "{}", said.stderr);
    assert!(!said.stderr.contains("alloc"), "{}", said.stderr);
}

#[test]
fn a_program_of_one_thread_may_do_what_only_such_a_program_may() {
    let program = compiled("alone.c", "alone", &[]);
    let recording = record_forbidden("alone", &[&program]);
    assert_eq!(recording.said.status, Some(0), "{}", recording.said.stderr);
    for function in ["work_before", "work_after"] {
        let [_, nanos] = sum_of::<2>(&recording.profile, function, Some("alone"));
        assert!(nanos > 0, "{function} is not in the samples\n{}", recording.said.stderr);
    }
}

#[test]
fn a_profile_of_another_kind_that_a_process_leaves_does_not_spoil_the_recording() {
    let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes")]);
    let frame = builder.named_frame("forged");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, Default::default(), &[1]);
    let forged = scratch().join("of-another-kind.pb");
    std::fs::write(&forged, pprof::encode(&builder.finish())).expect("written");
    let script = "cp \"$1\" \"$FLAMELET_RECORD_FOLDER/9-0.profile\" || exit 9; exec \"$2\"";
    let program = compiled("busy.c", "busy", &[]);
    let words = [Path::new("sh"), Path::new("-c"), Path::new(script), Path::new("sh"), &forged, &program];
    let recording = record_forbidden("of-another-kind", &words);
    assert_eq!(recording.said.status, Some(4), "{}", recording.said.stderr);
    let [_, nanos] = sum_of::<2>(&recording.profile, "busy_parent", Some("busy"));
    assert!(nanos > 0, "{}", recording.said.stderr);
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
