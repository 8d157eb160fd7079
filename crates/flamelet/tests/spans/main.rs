//! `tracing` spans: samples carry their path, their times are what the program itself has measured, and a request carries its
//! trace.

#![cfg(target_os = "linux")]

mod labels;
#[path = "../support/pprof.rs"]
mod pprof;
mod scrapes;
mod times;
mod traces;

use std::sync::Once;
use std::time::{Duration, Instant};

use flamelet::{Profile, Profiler, TraceIds};
use tracing_subscriber::layer::SubscriberExt;

flamelet::global_allocator!();
flamelet::lock_profiling!();

/// How long each wait lasts at least.
const WAIT: Duration = Duration::from_millis(20);

const DEADLINE: Duration = Duration::from_secs(180);

/// A profiler of a process whose spans are watched.
fn profiler() -> Profiler {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let layer = flamelet::spans::layer().trace_ids(current_trace);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(subscriber).expect("there is no other");
    });
    Profiler::builder().name("under test").start().expect("started")
}

thread_local! {
    /// What tracing-opentelemetry would have made current.
    static TRACE: std::cell::Cell<Option<TraceIds>> = const { std::cell::Cell::new(None) };
}

fn current_trace() -> Option<TraceIds> {
    TRACE.get()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// The text of a label of a sample.
fn label<'p>(
    profile: &'p Profile,
    sample: &flamelet_capture::profile::Sample<'_>,
    key: &str,
) -> Option<&'p str> {
    let labels = profile.labels(sample.labels);
    let found = labels.iter().find(|label| profile.string(label.key) == key)?;
    Some(profile.string(found.text))
}

/// The names of a sample's functions, leaf first.
fn functions<'p>(
    profile: &'p Profile,
    sample: &flamelet_capture::profile::Sample<'_>,
) -> impl Iterator<Item = &'p str> {
    let lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
    lines.filter_map(|line| line.function).map(|id| profile.string(profile.function(id).name))
}

/// Whether a sample with this function carries this label.
fn carries(profile: &Profile, function: &str, key: &str, value: &str) -> bool {
    profile.samples().any(|sample| {
        label(profile, &sample, key) == Some(value)
            && functions(profile, &sample).any(|name| name.contains(function))
    })
}

/// Uses the CPU for about this long.
#[inline(never)]
fn burn_cycles(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

/// Repeats `attempt` until it returns something.
#[track_caller]
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(start.elapsed() < DEADLINE, "still not as it should be");
    }
}
