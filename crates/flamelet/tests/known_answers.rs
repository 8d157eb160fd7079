//! Services whose CPU time is known, and the names in their profiles: inlined functions, tasks of an async runtime,
//! and no names in a program without symbols.

#![cfg(target_os = "linux")]
#![allow(dead_code, unsafe_code, reason = "a part of the clocks is used, and they are C functions")]

#[path = "../../capture/tests/support/clocks.rs"]
mod clocks;

use clocks::{process_cpu, thread_cpu};
use flamelet::labels::LabelFuture;
use flamelet::{CpuCapture, Profile, Profiler};
use flamelet_capture::profile::{Location, pprof};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The sampler sees the whole process: one test at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without a budget, which would lower the rate on a slow machine.
fn profiler(name: &str) -> Profiler {
    Profiler::builder().name(name).frequency(999).overhead_budget(None).start().expect("starts")
}

/// Uses this much CPU time, by the clock of its thread. (A number of rounds would not be an amount of time: on a virtual
/// machine the same work takes longer at one moment than at another, and 75 % of the rounds were 71 to 79 % of the time.)
macro_rules! worker {
    ($name:ident, $seed:expr, $inline:ident) => {
        #[inline($inline)]
        fn $name(wanted: Duration) -> u64 {
            let (mut hash, start): (u64, Duration) = (black_box($seed), thread_cpu());
            while thread_cpu() - start < wanted {
                for round in 0..20_000 {
                    hash = black_box((hash ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
            }
            hash
        }
    };
}

worker!(inlined_red, 1, always);
worker!(inlined_blue, 2, always);
worker!(task_red, 3, never);
worker!(task_blue, 4, never);

/// Returns the samples with a function of this name, in percent of those with either function.
fn share(profile: &Profile, name: &str, other: &str) -> f64 {
    let has = |part: &str| {
        let samples = profile.samples().filter(|sample| {
            let locations = profile.stack(sample.stack).iter();
            locations.flat_map(|&id| profile.lines(id)).any(|line| {
                line.function.is_some_and(|id| profile.string(profile.function(id).name).contains(part))
            })
        });
        samples.map(|sample| sample.values[1]).sum::<i64>() as f64
    };
    let (wanted, rest) = (has(name), has(other));
    wanted * 100.0 / (wanted + rest).max(1.0)
}

/// Some ticks of the kernel long: then a share is known to a fraction of a point on a quiet machine, where many short
/// turns would leave it to chance.
const TURN: Duration = Duration::from_millis(25);

/// Enough samples to know a share to within a few points.
const ENOUGH: f64 = 240.0;

/// Returns how many equal samples would say as much: on a busy machine, one sample may stand for many ticks.
fn effective(profile: &Profile) -> f64 {
    let events = profile.timeline.iter().flat_map(|timeline| &timeline.events);
    let (sum, squares) = events
        .map(|event| event.value as f64)
        .fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// Works until there are enough samples. How much CPU time that takes depends on how many ticks of the kernel land on
/// this process, and not on others.
fn until_enough(capture: &CpuCapture, mut work: impl FnMut()) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let start = process_cpu();
    while effective(&capture.snapshot()) < ENOUGH {
        work();
        assert!(process_cpu() - start < PATIENCE, "too few samples in {PATIENCE:?} of CPU time");
    }
}

/// A share of 75 % of [`ENOUGH`] samples: were each left to chance, 15 points are five standard deviations. (How exact
/// it is on a quiet machine, `cargo xtask bench cpu` measures.)
fn assert_three_quarters(seen: f64) {
    println!("75 % seen as {seen:.1} %");
    assert!((60.0..90.0).contains(&seen), "75 % seen as {seen:.1} %");
}

#[inline(never)]
fn calls_inlined_ones() {
    black_box(inlined_red(3 * TURN));
    black_box(inlined_blue(TURN));
}

#[test]
fn inlined_functions_have_their_share_and_their_caller() {
    let _turn = turn();
    let capture = profiler("inlined").start().expect("captures");
    until_enough(&capture, calls_inlined_ones);
    let profile = capture.finish();
    let seen = share(&profile, "inlined_red", "inlined_blue");
    assert_three_quarters(seen);
    // An inlined function and the one it went into are lines of one location.
    let is_inlined = profile.locations().iter().any(|location| {
        let lines = profile.lines_of(location);
        let name = |at: usize| {
            let function = lines.get(at).and_then(|line| line.function);
            function.map_or("", |id| profile.string(profile.function(id).name))
        };
        name(0).contains("inlined_red") && name(1).contains("calls_inlined_ones")
    });
    assert!(is_inlined, "a location has both");
}

static UNITS: AtomicU64 = AtomicU64::new(0);

async fn request(number: u64) {
    for _ in 0..3 {
        black_box(task_red(TURN));
        tokio::task::yield_now().await;
    }
    black_box(task_blue(TURN));
    tokio::time::sleep(Duration::from_micros(200 * (number % 3))).await;
    UNITS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn tasks_of_an_async_service_have_their_share_and_their_labels() {
    let _turn = turn();
    UNITS.store(0, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let capture = profiler("async").start().expect("captures");
    let mut batches = 0;
    until_enough(&capture, || {
        batches += 1;
        runtime.block_on(async {
            let requests = (0..8u64).map(|number| {
                let route = if number % 2 == 0 { "/even" } else { "/odd" };
                tokio::spawn(request(number).in_scope([("route", route)]))
            });
            for request in requests.collect::<Vec<_>>() {
                request.await.expect("no panic");
            }
        });
    });
    let profile = capture.finish();
    assert_eq!(UNITS.load(Ordering::Relaxed), batches * 8);
    let seen = share(&profile, "task_red", "task_blue");
    assert_three_quarters(seen);
    let with_route = |route: &str| {
        let samples = profile.samples().filter(|sample| {
            let mut labels = profile.labels(sample.labels).iter();
            labels.any(|label| profile.string(label.key) == "route" && profile.string(label.text) == route)
        });
        samples.map(|sample| sample.values[1]).sum::<i64>() as f64
    };
    let (even, odd) = (with_route("/even"), with_route("/odd"));
    let total = profile.total(1) as f64;
    let (labelled, even) = ((even + odd) * 100.0 / total, even * 100.0 / (even + odd));
    assert!(labelled > 70.0, "labelled: {labelled:.1} %");
    // Half of them: 20 points are six standard deviations.
    assert!((30.0..70.0).contains(&even), "labelled as even: {even:.1} %");
    let is_rooted = |name: &str| profile.functions().iter().any(|f| profile.string(f.name).contains(name));
    assert!(is_rooted("tokio::runtime"), "the runtime's frames are there");
}

/// The path where the stripped copy of this test writes its profile.
const PROFILE_OF_COPY: &str = "FLAMELET_TEST_PROFILE_OF_COPY";

#[test]
fn frames_without_a_name_are_counted() {
    let _turn = turn();
    if let Some(path) = std::env::var_os(PROFILE_OF_COPY) {
        return burn_into(path.as_ref());
    }
    // Beside this test: programs can run there, which not every temporary folder allows.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (copy, file) = (folder.path().join("copy"), folder.path().join("profile.pb.gz"));
    std::fs::copy(std::env::current_exe().expect("a path"), &copy).expect("copied");
    let stripped = Command::new("strip").arg("--strip-all").arg(&copy).status();
    assert!(stripped.expect("strip is of binutils").success());
    let mut run = Command::new(&copy);
    run.args(["--exact", "frames_without_a_name_are_counted"]).env(PROFILE_OF_COPY, &file);
    let output = run.output().expect("the copy runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let bytes = std::fs::read(&file).expect("the copy wrote it");
    let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
    let mappings = profile.mappings();
    let is_own = |location: &Location| {
        let mapping = location.mapping.and_then(|id| mappings.get(id.index()));
        mapping.is_some_and(|mapping| profile.string(mapping.filename) == copy.to_string_lossy())
    };
    let own: Vec<&Location> = profile.locations().iter().filter(|location| is_own(location)).collect();
    assert!(!own.is_empty(), "the copy's code is in its profile");
    assert!(own.iter().all(|location| profile.lines_of(location).is_empty()), "nothing there has a name");
    let nameless = profile.locations().iter().filter(|location| profile.lines_of(location).is_empty());
    let quality = profile.quality.expect("it says how good it is");
    assert_eq!(quality.unresolved, nameless.count() as u64, "the frames without a name are counted");
}

/// Writes a profile of some work to `path`.
fn burn_into(path: &Path) {
    let capture = profiler("copy").start().expect("captures");
    until_enough(&capture, || {
        black_box(task_red(TURN));
    });
    let file = std::fs::File::create(path).expect("made");
    flamelet::write_pprof(&capture.finish(), file).expect("written");
}
