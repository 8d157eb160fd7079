//! A service that blocks signals after profiling started, and takes them by `sigwait` or `signalfd`, gets each of them.

#![cfg(target_os = "linux")]

#[path = "../../capture/tests/support/signals.rs"]
mod signals;

use flamelet::{Continuous, Profiler, setup_profiling};
use signals::{assert_survives, be_a_daemon};
use std::any::Any;
use std::time::Duration;

/// Not a test by itself: the other tests start this program again to run it.
#[test]
fn child() {
    be_a_daemon(|mode| -> Box<dyn Any> {
        let profiler = || Profiler::builder().start().expect("starts");
        match mode {
            "continuous" => {
                let past = Profiler::builder().continuous(Continuous::default());
                Box::new(past.start().expect("starts"))
            }
            "setup_profiling" => {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().to_str().expect("text").to_owned();
                Box::new((setup_profiling(path, 150, 120, None).expect("starts"), folder))
            }
            // A capture that is awaited has its own thread.
            "capture" => Box::new(profiler().cpu(Duration::from_secs(3600)).into_future()),
            other => panic!("no child of the name {other}"),
        }
    });
}

#[test]
fn a_daemon_lives_beside_continuous_sampling() {
    assert_survives("continuous");
}

#[test]
fn a_daemon_lives_beside_interval_files() {
    assert_survives("setup_profiling");
}

#[test]
fn a_daemon_lives_beside_a_capture_that_is_awaited() {
    assert_survives("capture");
}
