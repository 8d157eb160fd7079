//! What Parca and Alloy scrape by default holds data, in a service that has something of each kind.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::pprof::{lacks_pprof, run_pprof};

/// The endpoints of both, but for CPU time: memory, block, goroutine, mutex.
const SCRAPED: [&str; 4] = ["allocs", "block", "goroutine", "mutex"];

/// Whether pprof's raw listing of a profile has samples: after the types there are rows of values and locations.
fn has_samples(raw: &str) -> bool {
    let samples = raw.split_once("Samples:\n").map_or("", |(_, rest)| rest);
    let rows = samples.lines().skip(1).take_while(|line| *line != "Locations");
    rows.filter(|line| line.trim_start().starts_with(|letter: char| letter.is_ascii_digit())).count() > 0
}

#[test]
fn the_default_scrape_sets_hold_data() {
    static LOCK: Mutex<()> = Mutex::new(());

    if lacks_pprof() {
        return;
    }
    let (profiler, is_over) = (profiler(), AtomicBool::new(false));
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    std::thread::scope(|scope| {
        // Two threads that work, allocate, and wait for each other.
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let _held = LOCK.lock().expect("no panic");
                    burn_cycles(Duration::from_millis(1));
                    kept.truncate(64);
                    kept.push(std::hint::black_box(vec![1u8; 1 << 20]));
                }
            });
        }
        for name in SCRAPED.iter().chain(&["profile?seconds=1"]) {
            let url = format!("http://{}/debug/pprof/{name}", server.address());
            until(|| has_samples(&run_pprof(&["-raw"], &url)).then_some(()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
