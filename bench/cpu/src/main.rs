//! One profiler, measured from inside:
//! `bench-cpu capture|calls HZ THREADS MILLIS | added HZ SECONDS | whole HZ | sample DEPTH SIGNALS | tables`.
//!
//! Each prints one line of JSON. Which profiler is in here is a feature of this package; the work is the same.

mod clock;
#[cfg(feature = "flamelet")]
mod flamelet_profiler;
mod interruptions;
#[cfg(not(feature = "flamelet"))]
mod pprof_profiler;
mod signal;
mod work;

#[cfg(feature = "flamelet")]
use flamelet_profiler as profiler;
#[cfg(not(feature = "flamelet"))]
use pprof_profiler as profiler;

use std::time::{Duration, Instant};

use work::Kind;

/// The depth of the workload's stacks, below what Rust's runtime adds.
const DEPTH: u32 = 40;

/// What a finished capture holds.
struct Finished {
    /// The encoded profile's size.
    bytes: usize,
    /// The CPU time that the profile reports.
    reported: Duration,
    /// Samples as the profile counts them, and those of them that reach at least [`DEPTH`] frames.
    samples: u64,
    whole: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u32>().ok());
    match (arguments.first().map(String::as_str), number(1), number(2), number(3)) {
        (Some("capture"), Some(hertz), Some(threads), Some(millis)) => {
            capture(hertz, threads, Kind::Arithmetic, Duration::from_millis(millis.into()));
        }
        (Some("calls"), Some(hertz), Some(threads), Some(millis)) => {
            capture(hertz, threads, Kind::Calls, Duration::from_millis(millis.into()));
        }
        (Some("added"), Some(hertz), Some(seconds), _) => added(hertz, seconds),
        (Some("whole"), Some(hertz), ..) => whole(hertz),
        (Some("sample"), Some(depth), Some(signals), _) => signal::sample(depth, signals),
        (Some("tables"), ..) => println!("{}", profiler::tables()),
        _ => {
            eprintln!(
                "usage: bench-cpu capture|calls HZ THREADS MILLIS | added HZ SECONDS | whole HZ | sample DEPTH SIGNALS \
                 | tables"
            );
            std::process::exit(2);
        }
    }
}

/// A capture from start to the encoded profile, while threads burn CPU time.
fn capture(hertz: u32, threads: u32, kind: Kind, each: Duration) {
    // Whatever the work itself needs is there before the profiler comes.
    work_on_threads(threads, kind, Duration::from_millis(30));
    clock::reset_peak();
    let before = clock::resident_kilobytes("VmRSS:");
    let (start, start_cpu) = (Instant::now(), clock::process());
    let capture = profiler::Capture::start(hertz);
    let (started, started_cpu) = (start.elapsed(), clock::process() - start_cpu);
    let worked = clock::process();
    let used = work_on_threads(threads, kind, each);
    // What is not the workers' is the profiler's own threads'.
    let own = (clock::process() - worked).saturating_sub(used);
    let captured = clock::resident_kilobytes("VmRSS:");
    let (end, end_cpu) = (Instant::now(), clock::process());
    let finished = capture.finish();
    let (ended, ended_cpu) = (end.elapsed(), clock::process() - end_cpu);
    let peak = clock::resident_kilobytes("VmHWM:");
    println!(
        "{{\"start_us\":{},\"start_cpu_us\":{},\"end_us\":{},\"end_cpu_us\":{},\"share\":{:.5},\"samples\":{},\
         \"whole\":{:.5},\"bytes\":{},\"own\":{:.5},\"capture_kb\":{},\"rss_kb\":{}}}",
        started.as_micros(),
        started_cpu.as_micros(),
        ended.as_micros(),
        ended_cpu.as_micros(),
        finished.reported.as_secs_f64() / used.as_secs_f64(),
        finished.samples,
        finished.whole as f64 / finished.samples.max(1) as f64,
        finished.bytes,
        own.as_secs_f64() / used.as_secs_f64(),
        captured.saturating_sub(before),
        peak.saturating_sub(before),
    );
}

/// Work on so many threads at once; gives the CPU time of all.
fn work_on_threads(threads: u32, kind: Kind, each: Duration) -> Duration {
    let work = move || {
        let mut used = Duration::ZERO;
        work::at_depth(DEPTH, &mut || used = work::burn(kind, each));
        used
    };
    let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(work)).collect();
    workers.into_iter().map(|worker| worker.join().expect("a worker")).sum()
}

/// The CPU time that a first capture adds to the process, from its start over a second of work to the encoded profile.
fn whole(hertz: u32) {
    const WORK: Duration = Duration::from_secs(1);
    let before = interruptions::lasting(WORK, DEPTH);
    let start = clock::process();
    let capture = profiler::Capture::start(hertz);
    let (started, on_thread) = (clock::process(), clock::thread());
    let sampled = interruptions::lasting(WORK, DEPTH);
    let (worked, worker) = (clock::process(), clock::thread() - on_thread);
    capture.finish();
    let ends = (started - start) + (clock::process() - worked);
    let elsewhere = (worked - started).saturating_sub(worker);
    let plain = (before + interruptions::lasting(WORK, DEPTH)) / 2.0;
    let taken = (sampled - plain).max(0.0) * WORK.as_secs_f64();
    println!("{{\"whole_us\":{}}}", ((ends + elsewhere).as_secs_f64() * 1e6 + taken * 1e6) as u64);
}

/// The CPU time that a capture adds to a busy process: what it takes from the working thread, and what threads of its
/// own use; with a capture against without, by turns, for so many seconds, the middle of all pairs. The speed of a
/// machine drifts by more than what is looked for, so it is not the work done that is compared: a thread that
/// does nothing but look at the clock sees every interruption, and how long it was.
fn added(hertz: u32, seconds: u32) {
    const TURN: Duration = Duration::from_secs(1);
    let mut pairs = Vec::new();
    let start = Instant::now();
    while pairs.is_empty() || start.elapsed() < Duration::from_secs(seconds.into()) {
        let plain = || interruptions::lasting(TURN, DEPTH);
        let before = (pairs.len() % 2 == 0).then(plain);
        let capture = profiler::Capture::start(hertz);
        let used = (clock::process(), clock::thread());
        let sampled = interruptions::lasting(TURN, DEPTH);
        let elsewhere = (clock::process() - used.0).saturating_sub(clock::thread() - used.1);
        capture.discard();
        let plain = before.unwrap_or_else(plain);
        pairs.push(sampled - plain + elsewhere.as_secs_f64() / TURN.as_secs_f64());
    }
    pairs.sort_by(f64::total_cmp);
    println!("{{\"added\":{:.4},\"pairs\":{}}}", pairs[(pairs.len() - 1) / 2] * 100.0, pairs.len());
}
