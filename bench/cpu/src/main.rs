//! One profiler, measured from inside:
//! `bench-cpu capture|calls HZ THREADS MILLIS | added HZ | felt HZ SECONDS | sample DEPTH SIGNALS | tables`.
//!
//! Each prints one line of JSON. Which profiler is in here is a feature of this package; the work is the same.

mod added;
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
    /// How often a thread was interrupted for a sample; one may stand for several.
    signals: u64,
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
        (Some("added"), Some(hertz), ..) => added::by_parts(hertz),
        (Some("felt"), Some(hertz), Some(seconds), _) => added::felt(hertz, seconds),
        (Some("sample"), Some(depth), Some(signals), _) => signal::sample(depth, signals),
        (Some("tables"), ..) => println!("{}", profiler::tables()),
        _ => {
            eprintln!(
                "usage: bench-cpu capture|calls HZ THREADS MILLIS | added HZ | felt HZ SECONDS | sample DEPTH SIGNALS \
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

/// Works on this many threads at once; returns the CPU time of all.
fn work_on_threads(threads: u32, kind: Kind, each: Duration) -> Duration {
    let work = move || {
        let mut used = Duration::ZERO;
        work::at_depth(DEPTH, &mut || used = work::burn(kind, each));
        used
    };
    let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(work)).collect();
    workers.into_iter().map(|worker| worker.join().expect("a worker")).sum()
}
