//! Tasks, awaits and requests on a stock tokio: what the profiles say, and what the program itself has measured.

#![cfg(target_os = "linux")]

mod awaits;
mod blocked;
#[path = "../support/pprof.rs"]
mod pprof;
mod requests;
mod storms;

use std::time::Duration;

use flamelet::{Profile, Profiler};

flamelet::lock_profiling!();

/// How long each wait lasts at least.
const WAIT: Duration = Duration::from_millis(20);

const ROUNDS: u32 = 5;

const DEADLINE: Duration = Duration::from_secs(180);

fn profiler() -> Profiler {
    Profiler::builder().name("under test").start().expect("started")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Count and delay of the stacks with a function of this name.
fn find(profile: &Profile, function: &str) -> (i64, Duration) {
    let mut found = (0, Duration::ZERO);
    for sample in profile.samples() {
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let has = |name: &str| name.contains(function);
        if lines.any(|line| line.function.is_some_and(|id| has(profile.string(profile.function(id).name)))) {
            found.0 += sample.values[0];
            found.1 += Duration::from_nanos(sample.values.get(1).copied().unwrap_or(0) as u64);
        }
    }
    found
}
