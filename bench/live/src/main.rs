//! `bench-live SECONDS [FOLDER] [URL]`: answers made-up requests for this long and prints one line: requests, microseconds of CPU
//! of its workers, microseconds of CPU of all other threads, and bytes of memory at most.
//!
//! The features choose who profiles it: `flamelet` keeps a history in FOLDER and, with a URL, pushes it to a Pyroscope;
//! `pyroscope` is Pyroscope's own agent, which pushes to the URL.

#[cfg_attr(feature = "flamelet", path = "by_flamelet.rs")]
#[cfg_attr(feature = "pyroscope", path = "by_pyroscope.rs")]
#[cfg_attr(not(any(feature = "flamelet", feature = "pyroscope")), path = "by_nobody.rs")]
mod profiler;
mod requests;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Samples a second, of either profiler.
#[allow(dead_code, reason = "nobody takes samples in the program without a profiler")]
const HERTZ: u32 = 100;
/// How long a window is, or the time between two pushes.
#[allow(dead_code, reason = "nobody takes samples in the program without a profiler")]
const WINDOW: Duration = Duration::from_secs(10);
const WORKERS: u64 = 2;
/// The time between two requests of a worker, of which each needs about a fourth.
const PAUSE: Duration = Duration::from_millis(6);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let Some(seconds) = argument(0).and_then(|text| text.parse().ok()) else {
        eprintln!("usage: bench-live SECONDS [FOLDER] [URL]");
        std::process::exit(2);
    };
    let profiler = profiler::start(argument(1), argument(2));
    let end = Instant::now() + Duration::from_secs(seconds);
    let workers: Vec<_> = (0..WORKERS).map(|seed| std::thread::spawn(move || work(seed, end))).collect();
    let (mut requests, mut worked) = (0, Duration::ZERO);
    for worker in workers {
        let (count, cpu) = worker.join().expect("a worker does not panic");
        (requests, worked) = (requests + count, worked + cpu);
    }
    profiler::stop(profiler);
    let others = cpu(ClockId::ProcessCPUTime) - worked;
    println!("{requests} {} {} {}", worked.as_micros(), others.as_micros(), peak());
}

/// Answers requests until `end`; returns how many, and the CPU time they took.
fn work(seed: u64, end: Instant) -> (u64, Duration) {
    let mut count = 0;
    while Instant::now() < end {
        requests::answer(seed * 7919 + count);
        count += 1;
        std::thread::sleep(PAUSE);
    }
    (count, cpu(ClockId::ThreadCPUTime))
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the highest resident memory of this process, in bytes.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
