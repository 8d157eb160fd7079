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
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t) };
    for depth in [10, 40, 100] {
        warm_signals(depth);
    }
    for frequency in [99, 999] {
        in_place(frequency, 1 << 10);
        in_place(frequency, 1 << 16);
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

/// The whole handler again and again, by signals that look like those of a timer; and what a signal costs
/// whose handler does nothing.
fn warm_signals(depth: u32) {
    let mut options = Options::with_frequency(1);
    options.overhead_budget = None;
    options.buffered_samples = 1 << 14;
    let session = cpu::start(&options).expect("starts");
    let before = cpu::status();
    let (mut nanos, mut empty) = (Vec::new(), Vec::new());
    at_depth(depth, &mut || {
        for round in 0..100 {
            for _ in 0..50 {
                nanos.push(time_signal(libc::SIGPROF));
                empty.push(time_signal(libc::SIGUSR1));
            }
            if round % 10 == 9 {
                drop(session.snapshot());
            }
        }
    });
    let after = cpu::status();
    drop(session.finish());
    let samples = (after.samples - before.samples).max(1);
    let (handler, lost) = (after.handler_nanos - before.handler_nanos, after.lost - before.lost);
    nanos.sort_unstable();
    empty.sort_unstable();
    let at = |of: &[u64], share: f64| of[(of.len() as f64 * share) as usize];
    println!(
        "signals at depth {depth}: median {} ns (p99 {}), empty {} ns, so {} ns above; by the handler's clock {} ns, {lost} lost",
        at(&nanos, 0.5),
        at(&nanos, 0.99),
        at(&empty, 0.5),
        at(&nanos, 0.5).saturating_sub(at(&empty, 0.5)),
        handler / samples
    );
}

extern "C" fn nothing(_: libc::c_int) {}

/// Sends this thread a signal as a timer of the sampler would, and takes the time.
fn time_signal(signal: libc::c_int) -> u64 {
    /// What the sampler's timers carry: its mark, and a period of a nanosecond.
    const TAG: u64 = 0x00f1_a3e1 << 40 | 1;
    const SI_TIMER: i32 = -2;
    let mut info = [0u64; 16];
    info[1] = u64::from(SI_TIMER as u32);
    info[3] = TAG;
    let start = Instant::now();
    // SAFETY: a signal to this thread itself, which has a handler for it.
    unsafe {
        let (pid, tid) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info.as_mut_ptr());
    }
    start.elapsed().as_nanos() as u64
}

/// The handler as it runs in a working program at depth 40, whose work fits the first cache or not: its own
/// clock, the mean over the samples of a second, the best and the middle of several seconds.
fn in_place(frequency: u32, words: usize) {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    let session = cpu::start(&options).expect("starts");
    let mut means = Vec::new();
    for _ in 0..7 {
        let before = cpu::status();
        at_depth(40, &mut || burn_over(Duration::from_secs(1), words));
        let after = cpu::status();
        let samples = (after.samples - before.samples).max(1);
        means.push((after.handler_nanos - before.handler_nanos) / samples);
    }
    drop(session.finish());
    means.sort_unstable();
    println!(
        "in place at {frequency} Hz, depth 40, work over {} KB: best mean {} ns, middle {} ns",
        words / 128,
        means[0],
        means[3]
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
    burn_over(wanted, 1 << 10);
}

/// Uses CPU time, writing all over so many words.
fn burn_over(wanted: Duration, words: usize) {
    let start = cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut memory = vec![0u64; words];
    let mut hash = 1u64;
    while cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID) - start < wanted.as_nanos() as u64 {
        for i in 0..20_000u64 {
            hash = (hash ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            memory[(hash >> 40) as usize % words] ^= hash;
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
