//! Work that continues until it is sampled, for figures that are right under any load.
//!
//! The kernel checks for due samples at its ticks, and on a busy machine a thread may run for a long time without one.
//! But each sample stands for all CPU time since the previous one. So right after a sample, all samples together stand
//! for the time that the kernel has charged, plus or minus a period: tests compare the two at that moment, and count
//! time limits in
//! CPU time.

use super::clocks::{thread_cpu, tick};
use super::{burn_blue, burn_red};
use flamelet_capture::cpu;
use std::iter::Sum;
use std::time::Duration;

/// The CPU time within which a sample must arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// The CPU time between two checks.
const STEP: Duration = Duration::from_millis(1);

/// Enough samples to measure a share.
pub(crate) const ENOUGH: usize = 50;

/// CPU time that was used up to a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    /// How much of it may have come after the sample.
    pub(crate) after: Duration,
}

impl Used {
    pub(crate) const NONE: Self = Self { cpu: Duration::ZERO, after: Duration::ZERO };
}

impl Sum for Used {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::NONE, |sum, part| Self { cpu: sum.cpu + part.cpu, after: sum.after + part.after })
    }
}

/// Repeats `step` until what is `seen` grows. Returns how much of `clock` passed since the last look that saw nothing
/// new.
fn until_grown(
    clock: fn() -> Duration,
    seen: impl Fn() -> Duration,
    mut step: impl FnMut() -> Duration,
) -> Duration {
    let begin = thread_cpu();
    let mut looked_at = clock();
    let before = seen();
    loop {
        step();
        let last_look = std::mem::replace(&mut looked_at, clock());
        if seen() > before {
            return clock() - last_look;
        }
        assert!(thread_cpu() - begin < PATIENCE, "no sample in {PATIENCE:?} of CPU time; seen: {before:?}");
    }
}

/// Uses `wanted` of this thread's CPU time, and more until what is `seen` grows.
#[inline(never)]
pub(crate) fn burn_red_until_seen(wanted: Duration, seen: impl Fn() -> Duration) -> Used {
    let start = thread_cpu();
    burn_red(wanted);
    let after = until_grown(thread_cpu, seen, || burn_red(STEP));
    Used { cpu: thread_cpu() - start, after }
}

/// Like [`burn_red_until_seen`], under another name.
#[inline(never)]
pub(crate) fn burn_blue_until_seen(wanted: Duration, seen: impl Fn() -> Duration) -> Used {
    let start = thread_cpu();
    burn_blue(wanted);
    let after = until_grown(thread_cpu, seen, || burn_blue(STEP));
    Used { cpu: thread_cpu() - start, after }
}

/// Burns until what is `seen` grows, for an engine that samples by the CPU time of the whole process. Returns how much
/// of it may have come after the sample.
pub(crate) fn burn_until_process_seen(seen: impl Fn() -> Duration) -> Duration {
    until_grown(super::process_cpu, seen, || burn_red(STEP))
}

/// Repeats `once` until there are this many samples, of any thread.
pub(crate) fn until_sampled<T>(count: usize, mut once: impl FnMut() -> T) {
    let (begin, before) = (thread_cpu(), cpu::status().samples);
    while cpu::status().samples < before + count as u64 {
        once();
        assert!(thread_cpu() - begin < PATIENCE, "fewer than {count} samples in {PATIENCE:?} of CPU time");
    }
}

/// The error of one thread's samples, with a timer of this frequency: a period that is not over yet, and the
/// tick by which a timer may be early.
pub(crate) fn timer_slack(frequency: u32) -> Duration {
    Duration::from_secs(1) / frequency + tick()
}

/// Panics unless samples stand for the CPU time that was used, up to `slack`, the engine's error.
pub(crate) fn assert_seen(what: &str, seen: Duration, used: Used, slack: Duration) {
    let tolerance = used.after + slack;
    println!("{what}: {seen:?} of {:?}, give or take {tolerance:?}", used.cpu);
    assert!(tolerance < used.cpu / 2, "{what}: {used:?} and {slack:?} say nothing");
    assert!(seen.abs_diff(used.cpu) <= tolerance, "{what}: {seen:?} of {used:?}, give or take {tolerance:?}");
}

/// Panics unless at least `percent` of [`ENOUGH`] samples are right.
pub(crate) fn assert_most(what: &str, percent: usize, all: usize, right: usize) {
    println!("{what}: {right} of {all} samples");
    assert!(all >= ENOUGH, "{what}: only {all} samples");
    assert!(right * 100 >= all * percent, "{what}: only {right} of {all} samples");
}
