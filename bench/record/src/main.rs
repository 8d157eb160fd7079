//! `bench-record THREADS MILLIS REPORT`: works under some 37 frames, then writes `turns end-nanoseconds cpu-ticks` to REPORT.
//!
//! The end is the time since 1970, so that whoever recorded this can tell how long the picture took from here.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

/// With the frames of the thread's start, 37.
const DEPTH: u32 = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [threads, millis, report] = arguments.as_slice() else {
        eprintln!("usage: bench-record THREADS MILLIS REPORT");
        std::process::exit(2);
    };
    let threads: usize = threads.parse().expect("a number of threads");
    let end = Instant::now() + Duration::from_millis(millis.parse().expect("milliseconds"));
    let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || turns_until(end))).collect();
    let turns: u64 = workers.into_iter().map(|worker| worker.join().expect("a worker")).sum();
    // utime and stime of all threads, in ticks.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    std::fs::write(report, format!("{turns} {now} {ticks}\n")).expect("the report can be written");
}

fn turns_until(end: Instant) -> u64 {
    let mut turns = 0;
    while Instant::now() < end {
        black_box(descend(DEPTH, 20_000));
        turns += 1;
    }
    turns
}

#[inline(never)]
fn descend(depth: u32, work: u64) -> u64 {
    // A frame of a hundred bytes or so, as functions have them.
    let here = black_box([u64::from(depth); 12]);
    let below = if depth == 0 { spin(work) } else { descend(depth - 1, work) };
    black_box(below + here[3])
}

#[inline(never)]
fn spin(work: u64) -> u64 {
    (0..work).fold(work, |value, _| black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
}
