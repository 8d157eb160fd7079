//! `flamelet record` where `perf_event_open` is forbidden: the command is sampled from inside.

use std::path::Path;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{answer, command, flamelet};

use crate::recording::{Recording, compiled, read, sum_of};

/// `flamelet record -- WORDS`, behind a filter as containers have it.
pub(crate) fn record_forbidden(name: &str, words: &[&Path]) -> Recording {
    let out = scratch().join(format!("{name}.pb.gz"));
    let mut recorder = command(&compiled("forbids.c", "forbids", &[]));
    recorder.arg(flamelet()).args(["record", "-F", "499", "-o"]).arg(&out).arg("--").args(words);
    let said = answer(&mut recorder);
    Recording { profile: read(&out, &said.stderr), said }
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
        let [_, nanos] = sum_of(&recording.profile, function, Some("busy"));
        // Half a second of each; what the kernel's tick makes of it is a few percent off.
        assert!((400_000_000..700_000_000).contains(&nanos), "{function}: {nanos} ns\n{said}");
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
