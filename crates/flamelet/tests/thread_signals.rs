//! With `thread_sampling!`, which puts its function in front of each thread of the program, a service that takes its signals
//! by `sigwait` or `signalfd` gets each of them too.

#![cfg(target_os = "linux")]

#[path = "../../capture/tests/support/signals.rs"]
mod signals;

use flamelet::{Continuous, Profiler};
use signals::{assert_survives, be_a_daemon};

flamelet::thread_sampling!();

/// Not a test by itself: the other test starts this program again to run it.
#[test]
fn child() {
    be_a_daemon(|_| Profiler::builder().continuous(Continuous::default()).start().expect("starts"));
}

#[test]
fn a_daemon_lives_beside_thread_sampling() {
    assert_survives("thread_sampling");
}
