//! A service that blocks signals after profiling started, and takes them by `sigwait` or `signalfd`, gets each of them.

#![cfg(target_os = "linux")]

#[path = "../../capture/tests/support/signals.rs"]
mod signals;

use flamelet::{Continuous, History, Profiler, Push, setup_profiling};
use signals::{assert_survives, be_a_daemon};
use std::any::Any;
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Waker};
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
            "history" => {
                let folder = tempfile::tempdir().expect("a folder");
                let past = Profiler::builder().history(History::new(folder.path()));
                Box::new((past.start().expect("starts"), folder))
            }
            "push" => {
                let folder = tempfile::tempdir().expect("a folder");
                let history = History::new(folder.path()).window(Duration::from_millis(200));
                // Nobody listens there.
                let past = Profiler::builder().history(history).push(Push::pyroscope("http://127.0.0.1:1"));
                Box::new((past.start().expect("starts"), folder))
            }
            "serve" => {
                let server = profiler().serve("127.0.0.1:0").expect("listens");
                // The connection stays open, and has a thread.
                let mut client = TcpStream::connect(server.address()).expect("it listens");
                client.write_all(b"GET /debug/pprof/ HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
                client.read_exact(&mut [0]).expect("it answers");
                Box::new((server, client))
            }
            "polls" => {
                let profiler = profiler();
                let mut task = pin!(flamelet::task("long", std::future::pending::<()>()));
                assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                Box::new(profiler)
            }
            other => panic!("no child of the name {other}"),
        }
    });
}

#[test]
fn a_daemon_lives_beside_a_history() {
    assert_survives("history");
}

#[test]
fn a_daemon_lives_beside_a_push() {
    assert_survives("push");
}

#[test]
fn a_daemon_lives_beside_a_server() {
    assert_survives("serve");
}

#[test]
fn a_daemon_lives_beside_watched_polls() {
    assert_survives("polls");
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
