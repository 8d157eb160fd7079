//! How much of a poll was not spent on the CPU.
//!
//! Reading the CPU clock of a thread is a system call, too much for every poll. So it is read around polls that are sampled,
//! at the end of polls that took long, and otherwise now and then: the CPU time since the last reading is the most that a
//! poll can have used.

use std::cell::Cell;

use crate::clock;

/// The clock is not read for polls that took no longer.
const SHORT: u64 = 100_000;

/// An older reading is renewed before a poll.
const OLD: u64 = 500_000;

struct Reading {
    /// When it was made.
    time: Cell<u64>,
    /// The CPU time of the thread.
    cpu: Cell<u64>,
}

thread_local! {
    static LAST: Reading = const { Reading { time: Cell::new(0), cpu: Cell::new(0) } };
}

impl Reading {
    /// Reads the clock, and returns the CPU time.
    fn renew(&self, now: u64) -> u64 {
        let cpu = clock::thread_cpu_nanos();
        self.time.set(now);
        self.cpu.set(cpu);
        cpu
    }
}

/// The CPU time of the thread at the beginning of a poll, or shortly before. Polls nest, and each has its own.
#[derive(Clone, Copy)]
pub(super) struct Baseline(u64);

/// Before a poll that begins `now`. One that is sampled is measured.
#[inline]
pub(super) fn begin(now: u64, is_sampled: bool) -> Baseline {
    LAST.with(|last| {
        let is_old = now.saturating_sub(last.time.get()) > OLD;
        Baseline(if is_sampled || is_old { last.renew(now) } else { last.cpu.get() })
    })
}

impl Baseline {
    /// After a poll from `start` to `end`: returns how long it was off the CPU, at least.
    #[inline]
    pub(super) fn end(self, start: u64, end: u64, is_sampled: bool) -> Option<u64> {
        let running = end.saturating_sub(start);
        if !is_sampled && running <= SHORT {
            return None;
        }
        let used = LAST.with(|last| last.renew(end)).saturating_sub(self.0);
        Some(running.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_long_poll_is_measured_whether_it_is_sampled_or_not() {
        for is_sampled in [false, true] {
            let start = clock::monotonic_nanos();
            let baseline = begin(start, is_sampled);
            std::thread::sleep(Duration::from_millis(20));
            let now = clock::monotonic_nanos();
            let blocked = baseline.end(start, now, is_sampled).expect("it took long");
            assert!(blocked > 0 && blocked <= now - start, "{blocked} of {}", now - start);
            // The same time on the CPU: none of it is off the CPU, but for what others have taken away.
            let (start, cpu) = (clock::monotonic_nanos(), clock::thread_cpu_nanos());
            let baseline = begin(start, is_sampled);
            burn_since(cpu);
            let now = clock::monotonic_nanos();
            let blocked = baseline.end(start, now, is_sampled).expect("it took long");
            assert!(blocked <= (now - start) - 19_000_000, "{blocked} of {}", now - start);
        }
    }

    /// Uses the CPU until the thread has used 20 ms more than `cpu`.
    fn burn_since(cpu: u64) {
        while clock::thread_cpu_nanos() - cpu < 20_000_000 {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    }

    #[test]
    fn the_work_of_a_poll_inside_is_also_that_of_the_poll_around_it() {
        for is_sampled in [false, true] {
            let (start, cpu) = (clock::monotonic_nanos(), clock::thread_cpu_nanos());
            let outer = begin(start, is_sampled);
            let inner = begin(clock::monotonic_nanos(), is_sampled);
            burn_since(cpu);
            inner.end(start, clock::monotonic_nanos(), is_sampled).expect("it took long");
            let now = clock::monotonic_nanos();
            let blocked = outer.end(start, now, is_sampled).expect("it took long");
            assert!(blocked <= (now - start) - 19_000_000, "{blocked} of {}", now - start);
        }
    }

    #[test]
    fn a_short_poll_is_not_worth_it() {
        let baseline = begin(1, false);
        assert_eq!(baseline.end(1_000, 1_000 + SHORT, false), None);
        assert!(baseline.end(1_000, 1_000 + SHORT, true).is_some());
    }
}
