//! System calls of a program.

use crate::programs::{alone, c, quiet, rust};
use crate::seen::{by_chance, column, frames, has, label, may_see_kernel, recorded};
use flamelet_record::CommandEnd;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

#[test]
fn every_call_is_counted_as_strace_counts_it() {
    if !may_see_kernel("system calls") {
        return;
    }
    let _one = alone();
    let program = c("calls", &[]);
    let recorded = recorded(quiet(&program, &[]), |options| {
        options.syscalls = true;
        options.cpu = false;
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    assert_eq!(summary.lost, 0, "{summary:?}");
    let calls: BTreeMap<&str, (u64, u64)> = summary
        .syscalls
        .iter()
        .map(|call| (call.name.as_str(), (call.stats.calls, call.stats.errors)))
        .collect();
    assert_eq!(calls.get("getppid"), Some(&(20_000, 0)));
    assert!(calls.get("openat").is_some_and(|&(calls, errors)| errors >= 500 && calls > errors), "{calls:?}");
    let failed = summary.syscalls.iter().find(|call| call.name == "openat").expect("seen");
    assert!(failed.stats.errors_by_number.contains(&(libc::ENOENT, failed.stats.errors)));
    assert_eq!(failed.stats.latencies.count(), failed.stats.calls);
    // The profile has the same totals, divided by stack.
    let count = column(profile, "syscalls");
    let of = |sample: &flamelet_profile::Sample<'_>| label(profile, sample, "syscall") == Some("getppid");
    let getppid: i64 = profile.samples().filter(of).map(|sample| sample.values[count]).sum();
    assert_eq!(getppid, 20_000);
    let under = |function: &str| -> i64 {
        let there = profile.samples().filter(|sample| has(&frames(profile, sample), function));
        there.filter(of).map(|sample| sample.values[count]).sum()
    };
    let (rarely, often) = (under("rarely"), under("often"));
    assert!(rarely + often > 19_000 && often > 0, "{rarely} and {often}: {summary:?}");
    compare_with_strace(&program, &calls);
}

#[test]
fn calls_are_counted_by_stacks_that_do_not_keep_step_with_the_program() {
    if !may_see_kernel("shares of system calls") {
        return;
    }
    let _one = alone();
    let recorded = recorded(quiet(&c("calls", &[]), &["20"]), |options| {
        options.syscalls = true;
        options.cpu = false;
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let (count, errors) = (column(profile, "syscalls"), column(profile, "syscall_errors"));
    let under = |function: &str| -> i64 {
        let there = profile.samples().filter(|sample| has(&frames(profile, sample), function));
        there.map(|sample| sample.values[count]).sum()
    };
    let (rarely, often) = (under("rarely"), under("often"));
    // A ratio of one to three, from a stack for each 509 of 400,000 calls.
    let share = often as f64 / (rarely + often) as f64;
    let margin = by_chance(0.75, 400_000.0 / 509.0);
    assert!((share - 0.75).abs() <= margin, "{share}, and not 0.75 ± {margin}: {summary:?}");
    assert!(profile.total(errors) > 0);
}

pub(crate) fn compare_with_strace(program: &std::path::Path, calls: &BTreeMap<&str, (u64, u64)>) {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,errors,name"]).arg(program).env_remove("LD_LIBRARY_PATH");
    let Ok(output) = strace.output() else {
        flamelet_test_support::skip!("the comparison with strace: it is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let mut compared = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(Ok(count)), Some(name)) = (words.first().map(|word| word.parse::<u64>()), words.last())
        else {
            continue;
        };
        if *name == "total" || name.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let errors = if words.len() > 2 { words[1].parse().unwrap_or(0) } else { 0 };
        assert_eq!(calls.get(name), Some(&(count, errors)), "{name} in {text}");
        compared += 1;
    }
    assert!(compared > 5, "{text}");
}

#[test]
fn a_tracepoint_and_page_faults_are_events_like_any_other() {
    if !may_see_kernel("tracepoints") {
        return;
    }
    let _one = alone();
    let recorded = recorded(quiet(&c("calls", &[]), &[]), |options| {
        options.cpu = false;
        options.events = vec!["syscalls:sys_enter_openat".to_owned(), "page-faults".to_owned()];
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    assert_eq!(summary.lost, 0, "{summary:?}");
    let opens = column(profile, "syscalls:sys_enter_openat");
    let from_main = profile.samples().filter(|sample| has(&frames(profile, sample), "main"));
    assert_eq!(from_main.map(|sample| sample.values[opens]).sum::<i64>(), 500);
    assert!(profile.total(column(profile, "page-faults")) > 10);
}

#[test]
fn a_function_can_be_an_event() {
    if !may_see_kernel("uprobes") {
        return;
    }
    let _one = alone();
    let program = c("calls", &[]);
    let recorded = recorded(quiet(&program, &[]), |options| {
        options.cpu = false;
        // All 5000 fit into one ring then: nothing is lost, however late they are taken out.
        options.dump_bytes = 1024;
        options.events = vec![format!("uprobe:{}:rarely", program.display())];
    });
    let profile = &recorded.profile;
    assert_eq!(profile.total(0), 5000, "{:?}", recorded.summary);
    let under_main: i64 = profile
        .samples()
        .filter(|sample| {
            let frames = frames(profile, sample);
            frames.first() == Some(&"rarely") && has(&frames, "main")
        })
        .map(|sample| sample.values[0])
        .sum();
    assert_eq!(under_main, 5000, "{:?}", recorded.summary);
}

#[test]
fn a_function_is_probed_in_threads_that_start_later_and_the_probe_goes() {
    if !may_see_kernel("uprobes") {
        return;
    }
    let _one = alone();
    let program = rust("deep", &[]);
    let recorded = recorded(quiet(&program, &["2", "50"]), |options| {
        options.cpu = false;
        options.events = vec![format!("uprobe:{}:spin", program.display())];
    });
    match &recorded.command {
        Some(CommandEnd::Exited(status)) => assert!(status.success(), "{status}"),
        other => panic!("{other:?}"),
    }
    let profile = &recorded.profile;
    let threads: BTreeSet<&str> =
        profile.samples().filter_map(|sample| label(profile, &sample, "thread")).collect();
    assert!(threads.is_superset(&BTreeSet::from(["worker-0", "worker-1"])), "{threads:?}");
    let probes = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!probes.contains(&format!("flamelet_{}/", std::process::id())), "{probes}");
}
