//! Tasks, awaits and requests on a stock tokio: what the profiles say, and what the program itself has measured.

#![cfg(target_os = "linux")]

mod awaits;
mod blocked;
mod in_flight;
#[path = "../support/pprof.rs"]
mod pprof;
mod requests;
mod storm;
mod storms;

use std::time::Duration;

use flamelet::{Profile, Profiler};

flamelet::lock_profiling!();

/// How long each wait lasts at least.
const WAIT: Duration = Duration::from_millis(20);

const ROUNDS: u32 = 5;

const DEADLINE: Duration = Duration::from_secs(180);

/// Whether a sample with a function of this name has this label.
fn has_label(profile: &Profile, function: &str, name: &str, value: &str) -> bool {
    profile.samples().any(|sample| {
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let is_it = |name: &str| name.contains(function);
        lines.any(|line| line.function.is_some_and(|id| is_it(profile.string(profile.function(id).name))))
            && profile
                .labels(sample.labels)
                .iter()
                .any(|label| (profile.string(label.key), profile.string(label.text)) == (name, value))
    })
}

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
