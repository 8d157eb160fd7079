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

#[test]
fn a_queue_is_an_undersized_pool_and_a_timer_is_not() {
    let example = Example::start(&[], &[]);
    load(&example, "/await?ms=200", 4);
    let before = explained(&example, "await");
    assert!(!speaks(&before, "undersized-pool"), "{before}");
    assert!(speaks(&before, "dominant-await") && before.contains("await_timer"), "{before}");
    load(&example, "/queue?ms=100", 8);
    let after = explained(&example, "await");
    assert!(speaks(&after, "undersized-pool") && after.contains("queue"), "{after}");
}

#[test]
fn a_lock_is_found_with_its_waiters_and_its_holders() {
    let example = Example::start(&[], &[("TOKIO_WORKER_THREADS", "4")]);
    load(&example, "/await?ms=200", 4);
    for endpoint in ["block", "mutex"] {
        let before = explained(&example, endpoint);
        assert!(!speaks(&before, "contended-lock") && !speaks(&before, "lock-holder"), "{before}");
    }
    load(&example, "/lock?ms=100", 4);
    let waiters = explained(&example, "block");
    assert!(speaks(&waiters, "contended-lock") && waiters.contains("waits::lock"), "{waiters}");
    let holders = explained(&example, "mutex");
    assert!(speaks(&holders, "lock-holder") && holders.contains("waits::lock"), "{holders}");
}

#[test]
fn a_blocked_executor_is_found() {
    let example = Example::start(&[], &[]);
    load(&example, "/blocking?ms=150", 4);
    let explained = explained(&example, "blocked");
    assert!(speaks(&explained, "blocked-executor") && explained.contains("system call"), "{explained}");
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
