//! Samples of every kind carry the path of their span.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use tracing::Instrument;

use super::*;

#[test]
fn cpu_samples_carry_the_path_of_their_span() {
    let profiler = profiler();
    let profile = until(|| {
        let capture = profiler.cpu(DEADLINE).start().expect("started");
        let _outer = tracing::info_span!("request").entered();
        {
            let _inner = tracing::info_span!("render").entered();
            burn_cycles(Duration::from_millis(200));
        }
        let profile = capture.finish();
        carries(&profile, "burn_cycles", "span", "request:render").then_some(profile)
    });
    for sample in profile
        .samples()
        .filter(|sample| functions(&profile, sample).any(|name| name.contains("burn_cycles")))
    {
        // Other tests of this process may burn, too, in spans of their own.
        assert_ne!(label(&profile, &sample, "span"), None, "all work here is in a span");
    }
}

#[test]
fn allocations_carry_the_path_of_their_span() {
    let profiler = profiler();
    let held: Vec<Vec<u8>> = {
        let _span = tracing::info_span!("fill_cache").entered();
        (0..64).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect()
    };
    let heap = profiler.heap().expect("heap profiles").view(flamelet_capture::profile::HeapView::InUse);
    drop(held);
    let is_there = heap.samples().any(|sample| label(&heap, &sample, "span") == Some("fill_cache"));
    assert!(is_there, "64 MiB are a hundred samples");
}

#[test]
fn waits_for_a_lock_carry_the_path_of_their_span() {
    static LOCK: Mutex<()> = Mutex::new(());

    #[inline(never)]
    fn wait_here() {
        drop(LOCK.lock().expect("not poisoned"));
    }

    let profiler = profiler();
    until(|| {
        let held = LOCK.lock().expect("not poisoned");
        let (tell, told) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let _span = tracing::info_span!("take_lock").entered();
            tell.send(()).expect("heard");
            wait_here();
        });
        told.recv().expect("told");
        std::thread::sleep(WAIT);
        drop(held);
        waiter.join().expect("no panic");
        let block = profiler.block().expect("locks are watched");
        carries(&block, "wait_here", "span", "take_lock").then_some(())
    });
}

#[inline(never)]
fn sit_here(end: &mpsc::Receiver<()>) {
    let _ = std::hint::black_box(end.recv());
}

/// Threads carry what they work on, whether they run or wait.
#[test]
fn samples_of_the_wall_clock_carry_span_route_and_trace() {
    let profiler = profiler();
    let (over, end) = mpsc::channel();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let trace = "cd".repeat(16);
            let _route = flamelet::labels::scope([("route", "/wall"), ("trace_id", &trace)]);
            let _span = tracing::info_span!("sit").entered();
            sit_here(&end);
        });
        scope.spawn(|| {
            let _route = flamelet::labels::scope([("route", "/busy")]);
            while !is_over.load(Ordering::Relaxed) {
                let _span = tracing::info_span!("spin").entered();
                burn_cycles(WAIT);
            }
        });
        until(|| {
            let profile = profiler.wall(Duration::from_millis(500)).expect("captured");
            let sits = |key, value: &str| carries(&profile, "labels::sit_here", key, value);
            let burns = |key, value| carries(&profile, "burn_cycles", key, value);
            let is_waiting = sits("route", "/wall") && sits("span", "sit") && sits("part", "blocked");
            let has_trace = sits("trace_id", &"cd".repeat(16));
            // Where others take its CPU, the thread that burns is not running.
            let is_running = burns("route", "/busy") && burns("span", "spin") && burns("part", "cpu");
            (is_waiting && has_trace && is_running).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
        drop(over);
    });
}

async fn await_here() {
    tokio::time::sleep(WAIT).await;
}

/// The labels of an await are those of the innermost span, not of the task.
#[test]
fn awaits_carry_the_path_of_their_span() {
    let (profiler, runtime) = (profiler(), runtime());
    until(|| {
        let work = async {
            await_here().instrument(tracing::info_span!("query")).await;
            tokio::time::sleep(WAIT).await;
        };
        runtime
            .block_on(
                runtime.spawn(flamelet::task("spans", work.instrument(tracing::info_span!("load_user")))),
            )
            .expect("no panic");
        let awaits = profiler.awaits();
        let has_task = carries(&awaits, "await_here", "task", "spans");
        let has_both = carries(&awaits, "await_here", "span", "load_user:query");
        let has_outer = carries(&awaits, "awaits_carry", "span", "load_user");
        (has_task && has_both && has_outer).then_some(())
    });
    // The timer of the inner span registers its waker in the very poll that goes on to the outer one.
    let awaits = profiler.awaits();
    assert!(!carries(&awaits, "await_here", "span", "load_user"), "the inner one is entered there");
}

/// A span that is left before the one inside it does not leave its labels behind.
#[test]
fn spans_that_end_in_the_wrong_order_leave_no_labels() {
    let _profiler = profiler();
    let outer = tracing::info_span!("outer").entered();
    let inner = tracing::info_span!("inner").entered();
    drop(outer);
    drop(inner);
    assert!(flamelet::labels::LabelSet::current().is_empty());
    let _again = tracing::info_span!("again").entered();
    let labels: Vec<_> =
        flamelet::labels::LabelSet::current().iter().map(|(_, path)| path.to_owned()).collect();
    assert_eq!(labels, ["again"]);
}
