//! The recipe for a worker: its profiles are one command away.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use flamelet_tests::programs::run_flamelet;

/// The worker, running until the test ends.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started() -> (Worker, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut process = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().expect("the worker starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let url = line.trim().strip_prefix("profiles at ").expect("an address").to_owned();
    (Worker(process), url)
}

#[test]
fn the_command_prints_where_a_worker_spends_its_time() {
    let (_worker, url) = started();
    // One second may pass without a sample on a machine that is busy with other things.
    let shown = (1..=20).map(|seconds| run_flamelet(["top", &format!("{url}profile?seconds={seconds}")]));
    let mut last = None;
    for top in shown {
        assert_eq!(top.status, Some(0), "{}", top.stderr);
        if top.stdout.contains("worker::compute") {
            return;
        }
        last = Some(top);
    }
    panic!("{last:?}");
}

#[test]
fn the_endpoints_of_a_worker_answer() {
    let (_worker, url) = started();
    for endpoint in ["heap", "block", "goroutine", "await"] {
        let raw = run_flamelet(["info", &format!("{url}{endpoint}")]);
        assert_eq!(raw.status, Some(0), "{endpoint}: {}", raw.stderr);
    }
}
