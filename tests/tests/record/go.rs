//! Recordings of programs in Go, which have no unwind information but a table of their own.

use std::path::Path;

use flamelet_profile::pprof;
use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

use super::{may_record, scratch, text};

#[test]
fn stacks_of_a_stripped_go_program_are_named_and_whole_or_counted_as_cut() {
    if !may_record() {
        return;
    }
    let Some(workload) = profiles::stripped_workload() else { return };
    let (recording, own) = (scratch("go.pb.gz"), scratch("go-own.pb.gz"));
    let command = [text(&workload), "cpu", text(&own), "500"];
    let answer =
        run_flamelet(["record", "--no-kernel", "-o", text(&recording), "--"].into_iter().chain(command));
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let profile = pprof::read(&std::fs::read(&recording).expect("it was written"), &pprof::Limits::default());
    let profile = profile.expect("a profile");
    let name = |location: &_| {
        let function = profile.lines(*location).last().and_then(|line| line.function);
        function.map_or("", |function| profile.string(profile.function(function).name))
    };
    let (mut whole, mut cut, mut all) = (0, 0, 0);
    for sample in profile.samples() {
        let names: Vec<&str> = profile.stack(sample.stack).iter().map(name).collect();
        all += 1;
        // The work is done by the first goroutine.
        let is_ours = names.iter().any(|name| name.starts_with("main."));
        match names.ends_with(&["main.main", "runtime.main", "runtime.goexit"]) {
            true => whole += sample.values[0],
            false if is_ours => cut += sample.values[0],
            false => {}
        }
    }
    let quality = profile.quality.expect("a recording");
    assert!(cut.unsigned_abs() <= quality.truncated, "{cut} end early and are not counted: {quality:?}");
    if whole == 0 && !Path::new("/proc/thread-self/schedstat").exists() {
        // Go has a frame that is larger than any dump. How many of the stacks above it are completed depends on the load.
        flamelet_test_support::skip!("this kernel does not count how long threads wait to run");
        return;
    }
    assert!(whole > 0, "{cut} of {all} end early: {quality:?}");
}
