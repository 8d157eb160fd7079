//! What single things cost under flamelet.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use flamelet_capture::wait::wall::WallClock;

use crate::{clock, watch};

/// What a task adds to a poll, of which few are sampled because there are so many.
pub(crate) fn poll() {
    watch::start();
    let mut context = Context::from_waker(Waker::noop());
    let mut bare = pin!(std::future::poll_fn(|_| std::hint::black_box(Poll::<()>::Pending)));
    let mut task =
        pin!(flamelet::task("poll", std::future::poll_fn(|_| std::hint::black_box(Poll::<()>::Pending))));
    let alone = clock::least_nanos(200, 20_000, || {
        assert!(std::hint::black_box(bare.as_mut()).poll(&mut context).is_pending());
    });
    let watched = clock::least_nanos(200, 20_000, || {
        assert!(std::hint::black_box(task.as_mut()).poll(&mut context).is_pending());
    });
    // From the making of a task to its end, with one poll.
    let made = clock::least_nanos(100, 5_000, || {
        let mut task = pin!(flamelet::task("poll", std::future::ready(())));
        assert!(task.as_mut().poll(&mut context).is_ready());
    });
    println!("{{\"poll_ns\":{:.2},\"bare_ns\":{alone:.2},\"task_ns\":{made:.1}}}", watched - alone);
}

/// The CPU time that looking at idle threads takes, in percent of one CPU.
pub(crate) fn wall(threads: u32, seconds: u32) {
    const LOOKS_A_SECOND: u32 = 20;
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    for _ in 0..threads {
        let wait = wait.clone();
        std::thread::spawn(move || drop(wait.lock().map(|wait| wait.recv())));
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut wall = WallClock::start().expect("started");
    let (start, used) = (Instant::now(), clock::process());
    for look in 0..seconds * LOOKS_A_SECOND {
        let due = start + Duration::from_secs(1) * look / LOOKS_A_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        wall.look();
    }
    let used = clock::process() - used;
    let percent = used.as_secs_f64() * 100.0 / f64::from(seconds);
    println!("{{\"wall_percent\":{percent:.4}}}");
    std::mem::forget(end);
    std::process::exit(0);
}

/// The CPU time that sampling at 99 Hz adds to a thread that works, in percent: what the profiler says, of which its own
/// threads are measured.
pub(crate) fn sampler(seconds: u32) {
    let profiler = flamelet::Profiler::builder().name("bench-wait").start().expect("started");
    let capture = profiler.start().expect("started");
    // What the start costs is not what sampling costs.
    std::thread::sleep(Duration::from_millis(500));
    let (before, process, thread) = (profiler.metrics(), clock::process(), clock::thread());
    let start = Instant::now();
    let mut hash = 1u64;
    while clock::thread() - thread < Duration::from_secs(seconds.into()) {
        for step in 0..200_000 {
            hash = std::hint::black_box((hash ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
        }
    }
    let (process, thread) = (clock::process() - process, clock::thread() - thread);
    let after = profiler.metrics();
    // The collector works by the clock on the wall, and the samples by that of the thread, which has to share the CPU.
    let own = process.saturating_sub(thread);
    let samples = (after.overhead - before.overhead).saturating_sub(own);
    let percent = |part: Duration, whole: Duration| part.as_secs_f64() * 100.0 / whole.as_secs_f64();
    let own = percent(own, start.elapsed());
    println!(
        "{{\"sampler_percent\":{:.4},\"own_threads_percent\":{own:.4},\"samples\":{}}}",
        own + percent(samples, thread),
        after.samples - before.samples,
    );
    drop(capture);
}
