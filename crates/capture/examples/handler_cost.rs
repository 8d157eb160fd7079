//! What one sample costs the thread that is sampled, and what a capture costs the process.
//!
//! `cargo run --release -p flamelet-capture --example handler_cost`

#![allow(unsafe_code, reason = "raises signals and reads clocks")]

use flamelet_capture::cpu::{self, Options};
use flamelet_unwind::live;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let before = resident_kilobytes();
    let start = Instant::now();
    let session = cpu::start(&Options::default()).expect("starts");
    println!("start of the first capture: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    burn(Duration::from_millis(500));
    drop(session.finish());
    println!("resident memory added: {} KB", resident_kilobytes().saturating_sub(before));
    for depth in [10, 40, 100] {
        unwinding(depth);
    }
    for frequency in [99, 999] {
        in_place(frequency);
    }
    for frequency in [99, 999] {
        added_cpu(frequency);
    }
}

#[inline(never)]
fn at_depth(depth: u32, work: &mut dyn FnMut()) {
    if depth == 0 {
        work();
    } else {
        at_depth(black_box(depth - 1), work);
    }
    black_box(depth);
}

/// Unwinding alone, the same stack again and again.
fn unwinding(depth: u32) {
    let mut frames = [0u64; 256];
    let (mut nanos, mut found) = (Vec::new(), 0);
    at_depth(depth, &mut || {
        for _ in 0..20_000 {
            let start = Instant::now();
            found = live::unwind_here(&mut frames).depth;
            nanos.push(start.elapsed().as_nanos() as u64);
        }
    });
    nanos.sort_unstable();
    let at = |share: f64| nanos[(nanos.len() as f64 * share) as usize];
    println!("unwinding {found} frames warm: median {} ns, p99 {} ns", at(0.5), at(0.99));
}

/// The handler as it runs in a working program at depth 40: its own clock, per sample.
fn in_place(frequency: u32) {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    let session = cpu::start(&options).expect("starts");
    let before = cpu::status();
    at_depth(40, &mut || burn(Duration::from_secs(3)));
    let after = cpu::status();
    let samples = after.samples - before.samples;
    drop(session.finish());
    let nanos = after.handler_nanos - before.handler_nanos;
    println!(
        "in place at {frequency} Hz, depth 40: {:.0} ns a sample, {samples} samples",
        nanos as f64 / samples as f64
    );
}

/// CPU time that the whole process uses for the same work with and without a capture.
fn added_cpu(frequency: u32) {
    let mut ratios = Vec::new();
    for _ in 0..7 {
        let plain = work_nanos();
        let mut options = Options::with_frequency(frequency);
        options.overhead_budget = None;
        let session = cpu::start(&options).expect("starts");
        let sampled = work_nanos();
        drop(session.finish());
        ratios.push(sampled as f64 / plain as f64 - 1.0);
    }
    ratios.sort_by(f64::total_cmp);
    let own = {
        let mut options = Options::with_frequency(frequency);
        options.overhead_budget = None;
        let session = cpu::start(&options).expect("starts");
        burn(Duration::from_secs(2));
        let profile = session.finish();
        profile.quality.map_or(0, |quality| quality.own_cpu_nanos) as f64 / 2e9
    };
    println!(
        "added CPU at {frequency} Hz: median of pairs {:+.2} %; by its own count {:.2} %",
        ratios[3] * 100.0,
        own * 100.0
    );
}

/// A fixed amount of work; gives the process' CPU time for it.
fn work_nanos() -> u64 {
    let start = cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID);
    at_depth(40, &mut || {
        for _ in 0..12_000 {
            black_box((0..20_000u64).fold(black_box(1u64), |hash, i| (hash ^ i).wrapping_mul(31)));
        }
    });
    cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID) - start
}

fn burn(wanted: Duration) {
    let start = cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut memory = vec![0u64; 1 << 16];
    let mut hash = 1u64;
    while cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID) - start < wanted.as_nanos() as u64 {
        for i in 0..20_000u64 {
            hash = (hash ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            memory[(hash >> 48) as usize] ^= hash;
        }
    }
    black_box(memory);
}

fn cpu_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
