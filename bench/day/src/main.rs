//! `bench-day FOLDER SECONDS`: a running service in fast motion. One thread answers made-up requests all the time, under a history
//! whose windows last a tenth of a second and have as many samples as windows of ten seconds at 19 Hz.
//!
//! Prints the microseconds of CPU that the history's own thread has taken.

#[path = "../../live/src/requests.rs"]
mod requests;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use flamelet::{Engine, History, Profiler};

const WINDOW: Duration = Duration::from_millis(100);
/// Samples a second: 190 in a window.
const HERTZ: u32 = 1900;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seconds] = arguments.as_slice() else {
        eprintln!("usage: bench-day FOLDER SECONDS");
        std::process::exit(2);
    };
    let seconds = seconds.parse().expect("a number of seconds");
    let history = History::new(folder.as_str()).window(WINDOW).frequency(HERTZ).keep_bytes(1 << 30);
    // Timers fire at the kernel's tick, which is too rare for fast motion.
    let builder = Profiler::builder().name("day").engine(Engine::Perf).overhead_budget(None).history(history);
    let profiler = builder.start().expect("a profiler");
    let (end, mut number) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < end {
        requests::answer(number);
        number += 1;
    }
    println!("{}", cpu_of("flamelet-past").as_micros());
    drop(profiler);
}

/// Returns the CPU time of a thread of this process.
fn cpu_of(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("a Linux").map(|task| task.expect("listed").path());
    let read = |task: &Path, file: &str| fs::read_to_string(task.join(file)).expect("read");
    let task = tasks.into_iter().find(|task| read(task, "comm").trim() == name).expect("its thread");
    let text = read(&task, "schedstat");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number");
    Duration::from_nanos(nanos)
}
