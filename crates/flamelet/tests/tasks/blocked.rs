//! Who holds up the executor, and where all threads are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;
use crate::pprof::{lacks_pprof, run_pprof};

/// Long enough to be noticed, on a machine that is not busy; else the test tries again.
const LONG: Duration = Duration::from_millis(60);

#[inline(never)]
fn holds_up_by_sleep() {
    std::thread::sleep(LONG);
    std::hint::black_box(());
}

#[inline(never)]
fn holds_up_by_work() {
    let start = Instant::now();
    while start.elapsed() < LONG {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

static LOCK: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn holds_up_by_lock() {
    *LOCK.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

/// The causes of the long polls with a function of this name.
fn causes(profile: &Profile, function: &str) -> Vec<String> {
    let mut causes = Vec::new();
    for sample in profile.samples() {
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let has = |name: &str| name.contains(function);
        if lines.any(|line| line.function.is_some_and(|id| has(profile.string(profile.function(id).name)))) {
            let labels = profile.labels(sample.labels).iter();
            let found = labels.filter(|label| profile.string(label.key) == "cause");
            causes.extend(found.map(|label| profile.string(label.text).to_owned()));
        }
    }
    causes
}

#[test]
fn polls_that_take_long_are_found_with_stack_and_cause() {
    let (profiler, runtime) = (profiler(), runtime());
    let _entered = runtime.enter();
    let start = Instant::now();
    let before = profiler.metrics().blocked_polls;
    let mut polls = 0;
    for (function, cause) in
        [("holds_up_by_sleep", "system call"), ("holds_up_by_work", "cpu"), ("holds_up_by_lock", "lock")]
    {
        // Again where the machine stood still, so that nobody looked in time, or the work was kept from the CPU.
        while !causes(&profiler.blocked_polls(), &format!("blocked::{function}")).iter().any(|it| it == cause)
        {
            assert!(
                start.elapsed() < DEADLINE,
                "{function}: {:?}",
                causes(&profiler.blocked_polls(), function)
            );
            polls += 1;
            let holder = std::thread::spawn(move || {
                let _held = LOCK.lock().expect("no panic");
                if function == "holds_up_by_lock" {
                    std::thread::sleep(2 * LONG);
                }
            });
            let work = async move {
                match function {
                    "holds_up_by_sleep" => holds_up_by_sleep(),
                    "holds_up_by_work" => holds_up_by_work(),
                    _ => holds_up_by_lock(),
                }
            };
            if function != "holds_up_by_lock" {
                holder.join().expect("no panic");
                runtime.block_on(flamelet::spawn_named(function, work)).expect("no panic");
            } else {
                runtime.block_on(flamelet::spawn_named(function, work)).expect("no panic");
                holder.join().expect("no panic");
            }
        }
    }
    let metrics = profiler.metrics();
    assert!(metrics.blocked_polls > before && polls >= 3, "{metrics:?}");
    assert!(metrics.blocked_time >= LONG, "{metrics:?}");
    if !lacks_pprof() {
        let server = profiler.serve("127.0.0.1:0").expect("serves");
        let url = format!("http://{}/debug/pprof/blocked", server.address());
        let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url);
        assert!(top.contains("Type: delay") && top.contains("holds_up_by_sleep"), "{top}");
    }
}

#[inline(never)]
fn waits_for_the_end(end: &std::sync::mpsc::Receiver<()>) {
    let _ = end.recv();
    std::hint::black_box(());
}

#[inline(never)]
fn runs_until_the_end(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

#[test]
fn the_wall_clock_sees_threads_that_run_and_threads_that_wait() {
    let (profiler, _idle) = (profiler(), runtime());
    let (end, is_end) = std::sync::mpsc::channel();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || waits_for_the_end(&is_end));
        scope.spawn(|| runs_until_the_end(&is_over));
        let start = Instant::now();
        let profile = loop {
            let profile = profiler.wall(Duration::from_millis(500)).expect("captured");
            let found = ["waits_for_the_end", "runs_until_the_end"]
                .map(|name| find(&profile, &format!("blocked::{name}")));
            if found.iter().all(|(count, nanos)| *count > 0 && !nanos.is_zero()) {
                break profile;
            }
            assert!(start.elapsed() < DEADLINE, "{found:?}");
        };
        assert!(profile.comments().any(|comment| comment.contains("idle threads set aside")));
        if !lacks_pprof() {
            let server = profiler.serve("127.0.0.1:0").expect("serves");
            let url = format!("http://{}/debug/pprof/wall?seconds=1", server.address());
            let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url);
            assert!(top.contains("Type: wall"), "{top}");
        }
        is_over.store(true, Ordering::Relaxed);
        drop(end);
    });
}
