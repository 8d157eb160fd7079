//! Whether intervals cover the truth in real captures: some minutes of work, so it runs only on request.
//!
//! `cargo test --release -p flamelet-capture --test coverage -- --ignored --nocapture`
//!
//! The simulation of the same, which runs with the other tests, is in `src/cpu/coverage.rs`.

#![cfg(target_os = "linux")]

mod support;

use flamelet_capture::cpu::{self, Options};
use flamelet_capture::labels;
use flamelet_profile::Profile;
use flamelet_profile::observations::{effective_of_share, share_interval};
use flamelet_test_support::Random;
use std::time::Duration;
use support::{burn_red, thread_cpu, turn};

/// How many captures of each kind; the environment variable FLAMELET_COVERAGE_RUNS sets another number.
const RUNS: u32 = 200;
/// The CPU time of a capture; FLAMELET_COVERAGE_MILLIS sets another one.
const MILLIS: u32 = 800;

fn from_environment(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Works in turns of random length for `wanted`, a fifth of them labelled; returns the labelled CPU time and all of it.
/// The turns are short beside the time between two samples: of samples that share a turn, intervals know nothing.
fn work(wanted: Duration, seed: u64) -> (Duration, Duration) {
    let mut random = Random::new(seed);
    let (start, mut labelled) = (thread_cpu(), Duration::ZERO);
    while thread_cpu() - start < wanted {
        let turn = Duration::from_micros(20 + (random.fraction() * 160.0) as u64);
        if random.fraction() < 0.2 {
            let begin = thread_cpu();
            let _scope = labels::scope([("part", "wanted")]);
            burn_red(turn);
            labelled += thread_cpu() - begin;
        } else {
            burn_red(turn);
        }
    }
    (labelled, thread_cpu() - start)
}

/// Returns the 95 % interval of the labelled share.
fn interval(profile: &Profile) -> (f64, f64) {
    let (mut part, mut whole) = ((0.0, 0.0), (0.0, 0.0));
    for (sample, observed) in profile.samples().zip(profile.observed(1)) {
        let value = sample.values[1] as f64;
        whole = (whole.0 + value, whole.1 + observed.squares);
        let mut labels = profile.labels(sample.labels).iter();
        if labels.any(|label| profile.string(label.key) == "part") {
            part = (part.0 + value, part.1 + observed.squares);
        }
    }
    share_interval(part.0 / whole.0, effective_of_share(part.0, part.1, whole.0, whole.1))
}

/// Captures once; returns whether the interval covers the share that the clocks show.
fn is_covered(frequency: u32, threads: u64, run: u64) -> bool {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    let session = cpu::start(&options).expect("starts");
    let done: Vec<(Duration, Duration)> = std::thread::scope(|scope| {
        let millis = from_environment("FLAMELET_COVERAGE_MILLIS", MILLIS);
        let length = Duration::from_millis(millis.into()) / threads as u32;
        let seed = |thread: u64| (run * 64 + thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let workers: Vec<_> = (0..threads).map(|at| scope.spawn(move || work(length, seed(at)))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let labelled: Duration = done.iter().map(|done| done.0).sum();
    let all: Duration = done.iter().map(|done| done.1).sum();
    let truth = labelled.as_secs_f64() / all.as_secs_f64();
    let (low, high) = interval(&session.finish());
    low <= truth && truth <= high
}

#[test]
#[ignore = "takes some minutes"]
fn intervals_of_real_captures_cover_the_truth() {
    let _turn = turn();
    let runs = from_environment("FLAMELET_COVERAGE_RUNS", RUNS);
    for frequency in [99, 250, 499, 1000] {
        for threads in [1, 8] {
            let covered = (0..runs).filter(|&run| is_covered(frequency, threads, run.into())).count();
            let percent = covered as f64 * 100.0 / f64::from(runs);
            println!("{frequency} Hz, {threads} threads: {percent:.1} % of {runs} captures cover the truth");
        }
    }
}
