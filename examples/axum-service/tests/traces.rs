//! One trace out of many: `--tagfocus trace_id=…` answers for it alone.

mod example;

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use example::Example;
use flamelet_tests::programs::run_flamelet;

const TRACES: [&str; 2] = ["4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"];

#[test]
fn the_command_answers_for_one_trace() {
    let example = Example::start(&[], &[]);
    let url = example.url("/debug/pprof/");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, trace) in TRACES.iter().enumerate() {
            let (example, is_over) = (&example, &is_over);
            scope.spawn(move || {
                let header = format!("traceparent: 00-{trace}-00f067aa0ba902b{number}-01\r\n");
                while !is_over.load(Ordering::Relaxed) {
                    let mut answer = String::new();
                    example.send("/burn?ms=100", &header).read_to_string(&mut answer).expect("an answer");
                }
            });
        }
        // The samples of one second may all be of the other trace.
        let found = (1..=60).any(|_| {
            let profile = format!("{url}profile?seconds=1");
            let file = flamelet_tests::profiles::scratch().join("traces.pb.gz");
            let fetched = run_flamelet(["fetch", &profile, "-o", &file.to_string_lossy()]);
            assert_eq!(fetched.status, Some(0), "{}", fetched.stderr);
            is_answered(&file.to_string_lossy())
        });
        is_over.store(true, Ordering::Relaxed);
        assert!(found, "no profile has both traces");
    });
}

/// Whether each trace alone has samples of its work, and none of the other.
fn is_answered(file: &str) -> bool {
    TRACES.iter().all(|trace| {
        let focus = format!("trace_id={trace}");
        let top = run_flamelet(["top", file, "--tagfocus", &focus]);
        let tags = run_flamelet(["tags", file, "--tagfocus", &focus]);
        let other = TRACES.iter().find(|other| *other != trace).expect("two");
        assert!(!tags.stdout.contains(other), "{}", tags.stdout);
        top.status == Some(0) && top.stdout.contains("three_quarters") && tags.stdout.contains("span: Total")
    })
}
