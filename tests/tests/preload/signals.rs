//! Programs that use signals behave the same with and without a recorder.

use std::path::Path;

use crate::inside::record_forbidden;
use crate::recording::{compiled, sum_of};

#[test]
fn a_program_s_own_signals_are_its_own() {
    let program = compiled("signals.c", "signals", &[]);
    for what in ["sigwait", "signalfd", "reset", "handle", "replace"] {
        let recording = record_forbidden(&format!("signals-{what}"), &[&program, Path::new(what)]);
        assert_eq!(recording.said.status, Some(0), "{what}: {}", recording.said.stderr);
        let [_, nanos] = sum_of(&recording.profile, "spin", None);
        // A process that executes another program every ten milliseconds never gets to save its samples.
        assert!(nanos > 0 || what == "replace", "{what}: nothing was sampled\n{}", recording.said.stderr);
    }
}

/// `sort` has a handler for every signal that would end it, SIGPROF among them, and then ends itself.
#[test]
fn programs_of_the_system_end_as_they_do_alone() {
    let line = "seq 1 200000 | grep -v 7 | sort -r | sort -n | tail -n 1";
    let words = ["sh", "-c", line].map(Path::new);
    let recording = record_forbidden("sort", &words);
    let said = &recording.said;
    assert_eq!((said.status, said.stdout.trim()), (Some(0), "200000"), "{}", said.stderr);
    assert!(!said.stderr.contains("timer expired"), "{}", said.stderr);
}

/// Also if tables cannot grow, because of limits on the address space or on the length of files.
#[test]
fn errno_is_the_program_s_own() {
    let program = compiled("errno.c", "errno", &[]);
    for limit in ["true", "ulimit -v 90000", "ulimit -f 600"] {
        // If the C library has no room for a thread's arena, it changes errno itself.
        let line = format!("export MALLOC_ARENA_MAX=1; {limit}; exec {}", program.display());
        let words = ["sh", "-c", &line].map(Path::new);
        for options in [&["--heap"][..], &["--heap=sampled"]] {
            let said = crate::recording::record("errno", options, &words).said;
            assert_eq!(said.stdout.trim(), "kept", "{limit}, {options:?}: {}", said.stderr);
        }
    }
}
