//! A service whose profiles are files: every few seconds one window, as pprof and as a flame graph.
//!
//! ```text
//! cargo run --release -p interval-files -- /tmp/profiles
//!
//! go tool pprof -top /tmp/profiles/profile-*.pb.gz
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Short, to see something soon; two minutes (120) are good for a real service.
const INTERVAL_SECONDS: u64 = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: interval-files FOLDER [SECONDS]   (how long to run, 30 s by default)");
        std::process::exit(2);
    };
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(30);

    // Under callgrind, sampling is off: valgrind 3.24 exits when a service that samples itself gets its signals.
    let is_off = std::env::var_os("PROFILING_OFF").is_some();
    let profiling = (!is_off).then(|| {
        flamelet::setup_profiling(
            folder.clone(),
            150, // sampling frequency (Hz)
            INTERVAL_SECONDS,
            Some("Interval Files".to_string()),
        )
    });
    match &profiling {
        Some(Ok(_)) => println!("profiling to {folder}"),
        // The service runs anyway.
        Some(Err(error)) => eprintln!("profiling is off: {error}"),
        None => println!("profiling is off"),
    }

    serve(Duration::from_secs(seconds));

    // Writes the unfinished last window, which would be lost otherwise.
    if let Some(Ok(profiling)) = profiling {
        profiling.stop();
    }
}

/// The work of the service.
fn serve(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        black_box(parse(black_box(20_000)));
        black_box(sort(black_box(2_000)));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[inline(never)]
fn parse(count: u32) -> u32 {
    let text: String = (0..count).map(|number| format!("{number} ")).collect();
    text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).fold(0, u32::wrapping_add)
}

#[inline(never)]
fn sort(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).map(|at| at.wrapping_mul(6_364_136_223_846_793_005)).collect();
    numbers.sort_unstable();
    numbers
}
