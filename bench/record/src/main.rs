//! `bench-record deep|tokio THREADS MILLIS REPORT`: works, then writes `turns end-nanoseconds cpu-ticks` to REPORT.
//!
//! `deep` works under some 37 frames; `tokio` under a poll whose frame is larger than any stack dump. The end is the
//! time since 1970, so that the recorder knows how long the picture took from here.

mod deep;
mod huge;

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, threads, millis, report] = arguments.as_slice() else {
        eprintln!("usage: bench-record deep|tokio THREADS MILLIS REPORT");
        std::process::exit(2);
    };
    let threads: usize = threads.parse().expect("a number of threads");
    let end = Instant::now() + Duration::from_millis(millis.parse().expect("milliseconds"));
    let turns = if kind == "tokio" { huge::turns(threads, end) } else { deep::turns(threads, end) };
    // utime and stime of all threads, in ticks.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    std::fs::write(report, format!("{turns} {now} {ticks}\n")).expect("the report can be written");
}

#[inline(never)]
fn spin(work: u64) -> u64 {
    (0..work).fold(work, |value, _| black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
}
