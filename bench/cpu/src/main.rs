//! `bench-cpu capture HZ THREADS MILLIS | added HZ PAIRS | sample DEPTH SIGNALS`: one profiler, measured from inside.
//!
//! Each prints one line of JSON. Which profiler is in here is a feature of this package; the work is the same.

mod clock;
#[cfg(feature = "flamelet")]
mod flamelet_profiler;
#[cfg(not(feature = "flamelet"))]
mod pprof_profiler;
mod signal;
mod work;

#[cfg(feature = "flamelet")]
use flamelet_profiler as profiler;
#[cfg(not(feature = "flamelet"))]
use pprof_profiler as profiler;

use std::time::{Duration, Instant};

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
            capture(hertz, threads, Duration::from_millis(millis.into()));
        }
        (Some("added"), Some(hertz), Some(pairs), _) => added(hertz, pairs),
        (Some("sample"), Some(depth), Some(signals), _) => signal::sample(depth, signals),
        _ => {
            eprintln!("usage: bench-cpu capture HZ THREADS MILLIS | added HZ PAIRS | sample DEPTH SIGNALS");
            std::process::exit(2);
        }
    }
}

/// A capture from start to the encoded profile, while threads burn CPU time.
fn capture(hertz: u32, threads: u32, each: Duration) {
    let before = clock::resident_kilobytes("VmRSS:");
    let (start, start_cpu) = (Instant::now(), clock::process());
    let capture = profiler::Capture::start(hertz);
    let (started, started_cpu) = (start.elapsed(), clock::process() - start_cpu);
    let worked = clock::process();
    let workers: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(move || work::at_depth(DEPTH, &mut || work::burn(each))))
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
    // The collector's own time is in here too; it is what a service would see as used, and small.
    let spent = clock::process() - worked;
    let captured = clock::resident_kilobytes("VmRSS:");
    let (end, end_cpu) = (Instant::now(), clock::process());
    let finished = capture.finish();
    let (ended, ended_cpu) = (end.elapsed(), clock::process() - end_cpu);
    let peak = clock::resident_kilobytes("VmHWM:");
    println!(
        "{{\"start_us\":{},\"start_cpu_us\":{},\"end_us\":{},\"end_cpu_us\":{},\"share\":{:.5},\"samples\":{},\
         \"whole\":{:.5},\"bytes\":{},\"capture_kb\":{},\"rss_kb\":{}}}",
        started.as_micros(),
        started_cpu.as_micros(),
        ended.as_micros(),
        ended_cpu.as_micros(),
        finished.reported.as_secs_f64() / spent.as_secs_f64(),
        finished.samples,
        finished.whole as f64 / finished.samples.max(1) as f64,
        finished.bytes,
        captured.saturating_sub(before),
        peak.saturating_sub(before),
    );
}

/// The CPU time of the whole process for a fixed amount of work, with a capture against without, in pairs.
fn added(hertz: u32, pairs: u32) {
    let mut ratios: Vec<f64> = (0..pairs)
        .map(|pair| {
            // Whoever goes second finds a warmer machine: they take turns.
            let (plain, sampled) = if pair % 2 == 0 {
                let plain = work::fixed(DEPTH);
                (plain, under_capture(hertz))
            } else {
                let sampled = under_capture(hertz);
                (work::fixed(DEPTH), sampled)
            };
            sampled.as_secs_f64() / plain.as_secs_f64() - 1.0
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share) as usize] * 100.0;
    println!("{{\"added\":{:.4},\"low\":{:.4},\"high\":{:.4}}}", at(0.5), at(0.25), at(0.75));
}

fn under_capture(hertz: u32) -> Duration {
    let capture = profiler::Capture::start(hertz);
    let sampled = work::fixed(DEPTH);
    capture.discard();
    sampled
}
