//! The CPU time that a profiler adds to a busy process.

use std::time::{Duration, Instant};

use crate::work::Kind;
use crate::{DEPTH, clock, interruptions, profiler, signal, work};

/// A first capture over a second of work on one thread, by parts: its start, what its own threads use, the samples (how many,
/// and what one takes when nothing of the profiler is in the core's caches, the kernel's part included), and its
/// end up to the encoded profile. Each part can be measured to a few percent, which their sum in the work done cannot: the speed of a
/// machine drifts by more.
pub(crate) fn by_parts(hertz: u32) {
    const WORK: Duration = Duration::from_secs(1);
    let start = clock::process();
    let capture = profiler::Capture::start(hertz);
    let started = clock::process();
    let mut used = Duration::ZERO;
    work::at_depth(DEPTH, &mut || used = work::burn(Kind::Arithmetic, WORK));
    let worked = clock::process();
    let finished = capture.finish();
    let ends = (started - start) + (clock::process() - worked);
    let own = (worked - started).saturating_sub(used);
    let one = signal::cold(DEPTH);
    let samples = one * u32::try_from(finished.signals).expect("of a second");
    println!(
        "{{\"added\":{:.4},\"own\":{:.4},\"signals\":{},\"signal_ns\":{},\"whole_us\":{}}}",
        (own + samples).as_secs_f64() / used.as_secs_f64() * 100.0,
        own.as_secs_f64() / used.as_secs_f64() * 100.0,
        finished.signals,
        one.as_nanos(),
        (ends + own + samples).as_micros(),
    );
}

/// The same as a thread feels it that does nothing but look at the clock and so sees every interruption: with a
/// capture against without, by turns, for this many seconds; and the standard error, most of which is the machine's.
pub(crate) fn felt(hertz: u32, seconds: u32) {
    const TURN: Duration = Duration::from_millis(500);
    let mut pairs = Vec::new();
    let start = Instant::now();
    while pairs.len() < 2 || start.elapsed() < Duration::from_secs(seconds.into()) {
        let plain = || interruptions::lasting(TURN, DEPTH);
        let before = (pairs.len() % 2 == 0).then(plain);
        let capture = profiler::Capture::start(hertz);
        let used = (clock::process(), clock::thread());
        let sampled = interruptions::lasting(TURN, DEPTH);
        let elsewhere = (clock::process() - used.0).saturating_sub(clock::thread() - used.1);
        capture.discard();
        let plain = before.unwrap_or_else(plain);
        pairs.push((sampled - plain + elsewhere.as_secs_f64() / TURN.as_secs_f64()) * 100.0);
    }
    let (mean, error) = trimmed(&mut pairs);
    println!("{{\"felt\":{mean:.4},\"error\":{error:.4},\"pairs\":{}}}", pairs.len());
}

/// The mean and its standard error without a quarter at either end, where the machine did something else.
fn trimmed(figures: &mut [f64]) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    let cut = figures.len() / 4;
    let kept = &figures[cut..figures.len() - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    // The spread of the whole, taken from its middle: half of a normal distribution is within 1.349 deviations. The mean
    // of that half is a tenth less sure than that of the whole would be.
    let deviation = (kept[kept.len() - 1] - kept[0]) / 1.349;
    (mean, deviation / (figures.len() as f64).sqrt() * 1.1)
}
