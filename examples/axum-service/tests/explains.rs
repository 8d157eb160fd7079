//! `flamelet explain` on profiles of waiting: each rule speaks about the route that plants its cause, and not about the others.

mod example;

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use example::Example;
use flamelet_tests::programs::run_flamelet;

/// Sends this many requests at the same time, and waits for all answers.
fn load(example: &Example, path: &str, clients: usize) {
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut answer = String::new();
                example.send(path, "").read_to_string(&mut answer).expect("an answer");
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            });
        }
    });
}

/// What `explain` says about an endpoint.
fn explained(example: &Example, endpoint: &str) -> String {
    let answer = run_flamelet(["explain", "--json", &example.url(&format!("/debug/pprof/{endpoint}"))]);
    assert_eq!(answer.status, Some(0), "{endpoint}: {}", answer.stderr);
    answer.stdout
}

fn speaks(explained: &str, rule: &str) -> bool {
    let found = explained.split("\"rule\":").skip(1);
    found.into_iter().any(|finding| finding.trim_start().starts_with(&format!("\"{rule}\"")))
}

/// The rows of `pairs.txt` about this service: a rule, the endpoint, the routes that it reports and those that it does not.
fn pairs() -> impl Iterator<Item = [&'static str; 4]> {
    let rows = include_str!("../../../tests/tests/yours/programs/pairs.txt").lines();
    rows.filter_map(|row| match row.split_whitespace().collect::<Vec<_>>()[..] {
        [rule, about, loud, quiet] => Some([rule, about.strip_prefix("service:")?, loud, quiet]),
        _ => None,
    })
}

/// What `explain` says about an endpoint after four requests at once to each of these routes, which `+` separates.
fn explained_after(endpoint: &str, routes: &str) -> String {
    let example = Example::start(&[], &[("TOKIO_WORKER_THREADS", "4")]);
    routes.split('+').for_each(|route| load(&example, route, 4));
    explained(&example, endpoint)
}

#[test]
fn rules_about_waiting_speak_about_the_routes_that_they_are_for() {
    assert_eq!(pairs().count(), 5);
    for [rule, endpoint, loud, quiet] in pairs() {
        let quiet = explained_after(endpoint, quiet);
        assert!(!speaks(&quiet, rule), "{rule}: {quiet}");
        let loud = explained_after(endpoint, loud);
        assert!(speaks(&loud, rule), "{rule}: {loud}");
    }
}

#[test]
fn findings_about_waiting_name_the_function_and_the_cause() {
    for (endpoint, route, expected) in [
        ("await", "/await?ms=200", "await_timer"),
        ("await", "/queue?ms=100", "waits::queue"),
        ("block", "/lock?ms=100", "waits::lock"),
        ("mutex", "/lock?ms=100", "waits::lock"),
        ("blocked", "/blocking?ms=150", "system call"),
    ] {
        let explained = explained_after(endpoint, route);
        assert!(explained.contains(expected), "{endpoint} after {route}: {explained}");
    }
}

/// The finding of a rule, as JSON.
fn finding<'e>(explained: &'e str, rule: &str) -> &'e str {
    let found = explained.split("\"rule\":").skip(1);
    let found = found.into_iter().find(|finding| finding.trim_start().starts_with(&format!("\"{rule}\"")));
    found.unwrap_or_else(|| panic!("{rule}: {explained}"))
}

/// Most requests await a timer only; the slow ones queue for the permit before.
#[test]
fn what_slow_requests_await_is_found() {
    let example = Example::start(&[], &[]);
    // On a busy machine some of these may be slow; that is no mistake.
    (0..130).for_each(|_| load(&example, "/await?ms=5", 1));
    (0..130).for_each(|_| load(&example, "/queue?ms=5", 1));
    load(&example, "/queue?ms=100", 12);
    let after = explained(&example, "await");
    let found = finding(&after, "dominant-await");
    assert!(
        found.contains("slower than the p99 of their route") && found.contains("waits::queue"),
        "{after}"
    );
}

/// What `explain` says about CPU time while some requests work all the time, and others for a moment now and then.
fn explained_work(all_the_time: usize, now_and_then: usize) -> String {
    let example = Example::start(&[], &[]);
    let _working: Vec<_> = (0..all_the_time).map(|_| example.send("/burn?ms=60000", "")).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                load(&example, "/burn?ms=20", now_and_then);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let explained = explained(&example, "profile?seconds=3&frequency=500");
        is_over.store(true, Ordering::SeqCst);
        explained
    })
}

#[test]
fn one_worker_that_works_for_all_is_an_imbalance_and_equal_ones_are_not() {
    let even = explained_work(3, 0);
    assert!(!speaks(&even, "worker-imbalance"), "{even}");
    let uneven = explained_work(1, 3);
    assert!(speaks(&uneven, "worker-imbalance"), "{uneven}");
}
