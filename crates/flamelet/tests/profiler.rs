//! Profiles without a server: for a duration, from start to finish, and of the recent past.

use flamelet::labels::LabelFuture;
use flamelet::{Continuous, ErrorKind, Profile, Profiler, ProfilerBuilder};
use std::hint::black_box;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(180);

/// Without a budget: on a slow machine it would lower the frequency, of all tests in this process and for a minute.
fn builder() -> ProfilerBuilder {
    Profiler::builder().overhead_budget(None)
}

/// Spins until `is_so`: on a busy machine it may take a while until there is a sample.
#[track_caller]
fn spin_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        spin(Duration::from_millis(100));
        if is_so() {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{what}");
    }
}

#[inline(never)]
fn spin(duration: Duration) {
    let end = Instant::now() + duration;
    let mut state = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

fn names(profile: &Profile, name: &str) -> bool {
    profile.functions().iter().any(|function| profile.string(function.name).contains(name))
}

fn labels(profile: &Profile, key: &str) -> Vec<String> {
    let sets = profile.samples().flat_map(|sample| profile.labels(sample.labels));
    let found = sets.filter(|label| profile.string(label.key) == key);
    found.map(|label| profile.string(label.text).to_owned()).collect()
}

#[test]
fn from_here_to_there() {
    let profiler = builder().name("checkout").label("version", "7").start().expect("started");
    let capture = profiler.start().expect("captures");
    {
        let _scope = flamelet::labels! { route = "/checkout" };
        let route = || labels(&capture.snapshot(), "route");
        spin_until("a sample with its label", || route().contains(&"/checkout".to_owned()));
    }
    let profile = capture.finish();
    assert!(names(&profile, "spin"));
    assert!(labels(&profile, "route").contains(&"/checkout".to_owned()));
    assert!(labels(&profile, "version").contains(&"7".to_owned()));
    let metrics = profiler.metrics();
    assert_eq!((metrics.captures_served, metrics.captures_cancelled), (1, 0));
    assert!(metrics.samples > 0 && metrics.symbol_memory > 0);
    drop(profiler.start().expect("captures"));
    assert_eq!(profiler.metrics().captures_cancelled, 1);
}

#[test]
fn for_a_while_on_any_runtime() {
    let profiler = builder().start().expect("started");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let labeled = async {
            loop {
                spin(Duration::from_millis(10));
                tokio::task::yield_now().await;
            }
        };
        let labeled = tokio::spawn(labeled.in_scope([("job", "async")]));
        let start = Instant::now();
        // Try again if the process did not run meanwhile.
        loop {
            let profile = profiler.cpu(Duration::from_secs(1)).frequency(199).await.expect("a profile");
            assert_eq!(profile.header.period, 1_000_000_000 / 199);
            if names(&profile, "spin") && labels(&profile, "job").contains(&"async".to_owned()) {
                break;
            }
            assert!(start.elapsed() < DEADLINE, "no sample of the task");
        }
        labeled.abort();
    });
}

#[test]
fn a_dropped_future_ends_its_capture() {
    let profiler = builder().start().expect("started");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let capture = profiler.cpu(Duration::from_secs(3600)).into_future();
        let waited = tokio::time::timeout(Duration::from_millis(100), capture).await;
        assert!(waited.is_err());
    });
    let start = Instant::now();
    while profiler.metrics().captures_cancelled == 0 {
        assert!(start.elapsed() < DEADLINE, "{:?}", profiler.metrics());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_recent_past_is_there_at_once() {
    let off = builder().start().expect("started");
    assert_eq!(off.last(Duration::from_secs(1)).expect_err("off").kind(), ErrorKind::NotEnabled);
    let continuous = Continuous::default().frequency(99).window(Duration::from_secs(1));
    let on = builder().continuous(continuous).start().expect("started");
    assert_eq!(on.remembered(), Some(Duration::from_secs(300)));
    spin_until("a sample", || names(&on.last(Duration::from_secs(60)).expect("on"), "spin"));
    assert!(on.metrics().frequency >= 99);
}

#[test]
fn wrong_requests_are_errors() {
    let profiler = builder().start().expect("started");
    let error = profiler.cpu(Duration::from_millis(1)).frequency(0).run().expect_err("0 Hz");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert_eq!(profiler.metrics().captures_failed, 1);
}

use std::future::IntoFuture as _;
