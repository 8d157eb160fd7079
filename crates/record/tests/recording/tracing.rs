//! System calls for users without access to tracepoints.

use crate::helper::{as_nobody, command, told};
use crate::programs::{alone, c};
use crate::seen::by_chance;
use crate::syscalls::compare_with_strace;
use std::collections::BTreeMap;

/// Returns the output of the helper, run as nobody, about a recording by ptrace; `None`, with a `SKIP:` line, where
/// ordinary users have tracepoints.
fn reported_as_nobody(what: &str, program: &std::path::Path) -> Option<String> {
    let mut helper = command(what, program);
    helper.env_remove("LD_LIBRARY_PATH");
    as_nobody(&mut helper);
    let told = told(helper);
    if told.contains("engine perf") {
        flamelet_test_support::skip!("{what}: an ordinary user has tracepoints here");
        return None;
    }
    assert!(told.contains("engine ptrace"), "{told}");
    // A note says that it is slower, and why.
    assert!(told.contains("traced by ptrace") && told.contains("sudo "), "{told}");
    Some(told)
}

/// `name=calls/errors` words.
fn calls(told: &str) -> BTreeMap<&str, (u64, u64)> {
    let list = told.split("calls [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let call = |word: &'_ str| {
        let (name, counts) = word.split_once('=')?;
        let (calls, errors) = counts.split_once('/')?;
        Some((name.len(), calls.parse().ok()?, errors.parse().ok()?))
    };
    list.split(' ')
        .filter_map(|word| call(word).map(|(n, calls, errors)| (&word[..n], (calls, errors))))
        .collect()
}

#[test]
fn every_call_is_counted_as_strace_counts_it() {
    let _one = alone();
    let program = c("calls", &[]);
    let Some(told) = reported_as_nobody("calls", &program) else { return };
    let calls = calls(&told);
    assert_eq!(calls.get("getppid"), Some(&(20_000, 0)), "{told}");
    assert!(told.contains("status Some(0)"), "{told}");
    compare_with_strace(&program, &calls);
    // Stacks are taken for some calls only; they are complete, with the same shares as the calls.
    let number = |name: &str| -> f64 {
        let rest = told.split(name).nth(1).unwrap_or_else(|| panic!("{told}"));
        rest.split([',', ' ']).next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    assert!(number("rooted ") >= 0.99, "{told}");
    let margin = by_chance(0.75, number("helper: "));
    assert!((number("often ") - 0.75).abs() <= margin, "0.75 ± {margin}: {told}");
}

#[test]
fn children_are_followed_and_the_status_is_passed_on() {
    let _one = alone();
    let program = c("children", &[]);
    let Some(told) = reported_as_nobody("calls", &program) else { return };
    assert!(told.contains("status Some(7)"), "{told}");
    assert_eq!(calls(&told).get("getppid"), Some(&(400, 0)), "{told}");
    compare_with_strace(&program, &calls(&told));
}

#[test]
fn named_calls_stop_alone() {
    let _one = alone();
    let Some(told) = reported_as_nobody("openat", &c("calls", &[])) else { return };
    // Two more are the loader's.
    assert!(told.contains("helper: 502 samples, 0 lost"), "{told}");
    assert!(told.contains("status Some(0)"), "{told}");
}

#[test]
fn a_process_is_attached_and_released() {
    let _one = alone();
    let Some(told) = reported_as_nobody("join", &c("calls", &[])) else { return };
    assert!(calls(&told).get("getppid").is_some_and(|&(calls, _)| calls > 100), "{told}");
    assert!(told.contains("it runs on"), "{told}");
}

#[test]
fn a_command_outlives_its_recording() {
    let _one = alone();
    let Some(told) = reported_as_nobody("outlive", "/bin/sh".as_ref()) else { return };
    // If it were not released properly, opening a file would fail, and the shell would end with 9.
    assert!(told.contains("ended with Some(3)"), "{told}");
}

#[test]
fn processes_that_outlive_a_command_are_released() {
    let _one = alone();
    let Some(told) = reported_as_nobody("leave", "/bin/sh".as_ref()) else { return };
    assert!(told.contains("status Some(3)"), "{told}");
    // If it were not released properly, it could not open its output file.
    assert!(told.contains("what was left ended Ok(\"well\\n\")"), "{told}");
}

#[test]
fn a_process_that_may_not_be_traced_is_refused_beside_one_that_may() {
    let _one = alone();
    let mut helper = command("refused", &c("calls", &[]));
    if !as_nobody(&mut helper) {
        flamelet_test_support::skip!("refused: needs root to become somebody else");
        return;
    }
    let told = told(helper);
    assert!(told.contains("helper: Denied"), "{told}");
}

#[test]
fn arguments_are_those_that_the_program_passes() {
    let _one = alone();
    let recorded = crate::seen::recorded(crate::programs::quiet(&c("calls", &[]), &[]), |options| {
        (options.syscalls, options.arguments, options.cpu) = (true, true, false);
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let of = |name: &str, arguments: &str| {
        let mut calls = summary.calls_by_arguments.iter();
        let found = calls.find(|call| call.name == name && call.arguments == arguments);
        found.map(|call| (call.calls, call.errors))
    };
    assert_eq!(of("openat", "AT_FDCWD, \"/no/such/file\", O_RDONLY"), Some((500, 500)), "{summary:?}");
    assert_eq!(of("getppid", ""), Some((20_000, 0)), "{summary:?}");
    let calls = crate::seen::column(profile, "syscalls");
    let opened = profile.samples().filter(|sample| {
        crate::seen::label(profile, sample, "args").is_some_and(|text| text.contains("/no/such/file"))
            && crate::seen::has(&crate::seen::frames(profile, sample), "main")
    });
    assert_eq!(opened.map(|sample| sample.values[calls]).sum::<i64>(), 500, "{summary:?}");
}
