//! The monotonic clock, read in a third of the time: from the counter of the CPU.
//!
//! Where the kernel itself derives its clocks from that counter, it has verified that the counter ticks at a constant
//! rate and is the same on all CPUs. There, for a moment after a thread has read the clock, the counter's progress is
//! added to that reading. The error is at most the difference between the two rates over that moment, whatever the
//! counter does later. [`Calibration`] keeps measuring how many nanoseconds a tick takes.

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::monotonic_nanos;

/// A thread reads the clock again after this many ticks: about a tenth of a millisecond.
const MOST_TICKS: u64 = 1 << 18;

/// If reading both took longer than this, the two readings may not belong together.
const SAME_MOMENT: u64 = 1 << 12;

/// The time between two measurements, in nanoseconds, and before the first one.
const BETWEEN: u64 = 1_000_000_000;
const AT_FIRST: u64 = 10_000_000;

/// How many nanoseconds a tick takes, in units of 2⁻³²; 0 while the counter cannot be relied on.
static SCALE: AtomicU64 = AtomicU64::new(0);

/// The counter and the clock at one moment.
#[derive(Clone, Copy)]
struct Anchor {
    ticks: u64,
    nanos: u64,
}

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor { ticks: 0, nanos: 0 }) };
}

/// Nanoseconds on the clock of [`monotonic_nanos`]. Readings of two threads, or of one, may be a few nanoseconds out of order.
/// Not for signal handlers: one that interrupts its own thread here would mix the anchors of both.
#[inline]
pub(crate) fn quick_nanos() -> u64 {
    let scale = SCALE.load(Ordering::Relaxed);
    if scale == 0 {
        return monotonic_nanos();
    }
    ANCHOR.get().nanos_at(ticks(), scale).unwrap_or_else(read_both)
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction. It is used only where the kernel's own clock depends on it, so a
    // process that is forbidden to use it could not read the clock either.
    unsafe { _rdtsc() }
}

/// Reads the clock, and counts from there.
#[cold]
fn read_both() -> u64 {
    let anchor = Anchor::now();
    anchor.into_iter().for_each(|anchor| ANCHOR.set(anchor));
    anchor.map_or_else(monotonic_nanos, |anchor| anchor.nanos)
}

impl Anchor {
    /// Reads both; `None` if the thread was interrupted meanwhile.
    fn now() -> Option<Self> {
        let (before, nanos, after) = (ticks(), monotonic_nanos(), ticks());
        let took = after.wrapping_sub(before);
        (took < SAME_MOMENT).then_some(Self { ticks: before.wrapping_add(took / 2), nanos })
    }

    /// Returns what the clock shows when the counter shows `ticks`, if that is not long after.
    #[inline]
    fn nanos_at(self, ticks: u64, scale: u64) -> Option<u64> {
        let passed = ticks.wrapping_sub(self.ticks);
        (passed < MOST_TICKS).then(|| self.nanos + ((passed * scale) >> 32))
    }

    /// Returns how many nanoseconds a tick took since `before`; `None` if that is more than any counter's.
    fn scale_since(self, before: Self) -> Option<u64> {
        const MOST: u64 = 1 << 42;
        let (ticks, nanos) = (self.ticks.checked_sub(before.ticks)?, self.nanos.checked_sub(before.nanos)?);
        let scale = (u128::from(nanos) << 32).checked_div(ticks.into())?;
        u64::try_from(scale).ok().filter(|scale| *scale < MOST)
    }
}

/// Measures the counter by the clock.
#[derive(Default)]
pub(crate) struct Calibration {
    /// When the next measurement is due, on the clock.
    due: u64,
    last: Option<(Anchor, Option<u64>)>,
}

impl Calibration {
    /// Measures about once a second. Call it often, always from the same thread.
    pub(crate) fn go_on(&mut self) {
        let now = monotonic_nanos();
        if now >= self.due
            && let Some(scale) = self.measure(now, is_clock_source, Anchor::now)
        {
            SCALE.store(scale, Ordering::Relaxed);
        }
    }

    /// Returns the new [`SCALE`]; `None` if it stays. The counter is read only where it makes the clock.
    fn measure(
        &mut self,
        now: u64,
        is_clock_source: impl FnOnce() -> bool,
        read: impl FnOnce() -> Option<Anchor>,
    ) -> Option<u64> {
        if !is_clock_source() {
            (self.due, self.last) = (now + BETWEEN, None);
            return Some(0);
        }
        // If the thread was interrupted, it tries again the next time.
        let anchor = read()?;
        let known = self.last.and_then(|(_, scale)| scale);
        let scale = self.last.and_then(|(last, _)| anchor.scale_since(last));
        self.due = anchor.nanos + if self.last.is_some() { BETWEEN } else { AT_FIRST };
        self.last = Some((anchor, scale));
        Some(scale.filter(|&scale| known.is_none_or(|known| are_close(known, scale))).unwrap_or(0))
    }
}

/// Returns whether two measurements differ by no more than they do while a clock is being adjusted.
fn are_close(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one / 1000
}

/// Returns whether the kernel makes its clock from the counter.
fn is_clock_source() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_counter_has_counted_is_added_for_a_moment() {
        let start = Anchor { ticks: u64::MAX - 9, nanos: 1_000 };
        // Four ticks for a nanosecond.
        assert_eq!(start.nanos_at(u64::MAX - 9, 1 << 30), Some(1_000));
        assert_eq!(start.nanos_at(390, 1 << 30), Some(1_100), "it may wrap around");
        assert_eq!(start.nanos_at(MOST_TICKS, 1 << 30), None);
        assert_eq!(start.nanos_at(0, 1 << 30).map(|nanos| nanos > 1_000), Some(true));
        assert_eq!(start.nanos_at(u64::MAX - 10, 1 << 30), None, "it went back");
    }

    #[test]
    fn a_counter_that_is_none_is_not_relied_on() {
        let (start, scale) = (Anchor { ticks: 500, nanos: 1_000 }, 1u64 << 30);
        let after = |ticks, nanos| Anchor { ticks, nanos }.scale_since(start);
        assert_eq!(after(4_500, 2_000), Some(scale));
        assert_eq!((after(500, 2_000), after(400, 2_000)), (None, None), "it stands still, or goes back");
        assert_eq!(after(501, 10_000_000_000), None, "it hardly moves");
        assert!(are_close(scale, scale + scale / 2_000) && !are_close(scale, scale + scale / 500));
    }

    #[test]
    fn a_counter_is_read_only_where_it_makes_the_clock_and_used_while_it_is_steady() {
        const SECOND: u64 = BETWEEN;
        let mut calibration = Calibration::default();
        let forbidden = || -> Option<Anchor> { panic!("the process may not read it") };
        assert_eq!((calibration.measure(5, || false, forbidden), calibration.due), (Some(0), 5 + SECOND));
        let mut measure = |nanos, ticks| {
            let scale = calibration.measure(nanos, || true, || Some(Anchor { ticks, nanos }));
            (scale, calibration.due - nanos)
        };
        assert_eq!(measure(SECOND, 0), (Some(0), AT_FIRST));
        assert_eq!(measure(2 * SECOND, 4 * SECOND), (Some(1 << 30), SECOND));
        assert_eq!(measure(3 * SECOND, 8 * SECOND), (Some(1 << 30), SECOND));
        assert_eq!(measure(4 * SECOND, 10 * SECOND), (Some(0), SECOND), "it has become slower");
        assert_eq!(measure(5 * SECOND, 12 * SECOND), (Some(1 << 31), SECOND), "and stays so");
        assert_eq!(calibration.measure(6 * SECOND, || true, || None), None, "interrupted");
        assert_eq!(calibration.measure(6 * SECOND, || false, forbidden), Some(0));
    }

    /// Whether this machine has such a counter or not, and whatever interrupts the threads.
    #[test]
    fn readings_lie_between_those_of_the_clock() {
        let mut calibration = Calibration::default();
        let start = monotonic_nanos();
        while monotonic_nanos() < start + 3 * AT_FIRST {
            calibration.go_on();
            let (before, quick, after) = (monotonic_nanos(), quick_nanos(), monotonic_nanos());
            // What two readings of both may be apart, and a thousandth of the moment.
            const TOLERANCE: u64 = 10_000;
            assert!(before <= quick + TOLERANCE && quick <= after + TOLERANCE, "{before} {quick} {after}");
        }
    }
}
