//! How often to collect and to look for new threads.
//!
//! A look costs some tens of microseconds, and more the more threads there are, so looks are rare unless something
//! calls for them: threads that come and go between two looks. Those cannot be seen themselves, but the CPU time that
//! they add to the process' clock without a sample can. Where looks cost more than the budget allows, they are rarer.
//! Collecting is cheap, and as frequent as slots fill up.
//!
//! Where threads make their timers themselves, looks only find the few that do not, and are rare.

use super::budget::Room;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest pauses between looks, and between collections, where threads make their timers themselves.
const LONGEST_IF_ARMED: Duration = Duration::from_secs(1);
const LONGEST_TO_COLLECT_IF_ARMED: Duration = Duration::from_millis(250);
/// Looks are never rarer than this, whatever they cost.
const SLOWEST: Duration = Duration::from_secs(10);
/// The pause before anything is known: short enough for the slots at the highest frequency.
const FIRST: Duration = Duration::from_millis(20);
/// When samples for more than this share of the process' CPU time are missing, short-lived threads are the reason.
const MISSING_PERCENT: u64 = 5;

/// What happened in a round: a collection, and perhaps a look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Samples collected, and the slots that there are for them.
    pub(super) samples: usize,
    pub(super) slots: usize,
    /// New threads.
    pub(super) born: usize,
}

/// What happened during the last second or so, or since the last glance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Review {
    /// CPU time of the process.
    pub(super) process_nanos: u64,
    /// CPU time that samples stand for.
    pub(super) sampled_nanos: u64,
    /// What may be owed to each thread at any time: a period.
    pub(super) period_nanos: u64,
    /// Known threads.
    pub(super) threads: usize,
}

/// The pauses between two collections, and between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    collect: Duration,
    look: Duration,
    /// The shortest pause between looks that the budget allows.
    least: Duration,
    /// Whether threads are known to come and go between looks.
    is_hurried: bool,
    /// Threads that were born since the last review.
    born: usize,
    /// Whether threads make their timers themselves as they start; looks then find only others.
    threads_arm_themselves: bool,
}

impl Pace {
    pub(super) const fn new() -> Self {
        let (least, is_hurried, threads_arm_themselves) = (Duration::ZERO, false, false);
        Self { collect: FIRST, look: FIRST, least, is_hurried, born: 0, threads_arm_themselves }
    }

    /// Looks rarely if threads make their timers themselves.
    pub(super) const fn with_self_arming_threads(mut self, threads_arm_themselves: bool) -> Self {
        self.threads_arm_themselves = threads_arm_themselves;
        self
    }

    /// The time until the next round.
    pub(super) fn pause(&self) -> Duration {
        self.collect.min(self.look_interval())
    }

    /// The time between two looks.
    pub(super) fn look_interval(&self) -> Duration {
        let wanted = if self.is_hurried { SHORTEST } else { self.look };
        wanted.max(self.least)
    }

    /// Returns whether to look again, this long after the last time.
    pub(super) fn is_look_due(&self, since: Duration) -> bool {
        // A waiting thread may be woken a little early.
        since + SHORTEST / 2 >= self.look_interval()
    }

    pub(super) fn looked(&mut self, look: Look) {
        self.born += look.born;
        if look.samples > look.slots / 8 {
            self.collect = (self.collect / 2).max(SHORTEST);
        } else if look.samples < look.slots / 32 {
            let longest = if self.threads_arm_themselves { LONGEST_TO_COLLECT_IF_ARMED } else { LONGEST };
            self.collect = (self.collect * 2).min(longest);
        }
        self.look = match look.born {
            0 => (self.look * 2).min(if self.threads_arm_themselves { LONGEST_IF_ARMED } else { LONGEST }),
            // Where one thread was born, more may be, and not all of them live until a late look.
            _ => self.look.min(FIRST),
        };
    }

    /// Returns what the budget can change, at this frequency.
    pub(super) fn room(&self, frequency: u32, asked: u32) -> Room {
        Room {
            samples_less: frequency > 1,
            samples_more: frequency < asked,
            looks_less: self.look_interval() < SLOWEST,
            looks_more: self.is_slowed(),
        }
    }

    /// Returns whether the budget makes looks rarer than they might be.
    pub(super) fn is_slowed(&self) -> bool {
        !self.least.is_zero()
    }

    /// Takes over what the budget decided for an earlier capture, if there was one.
    pub(super) fn slow_down_as(&mut self, other: Option<&Self>) {
        self.least = other.map_or(Duration::ZERO, |other| other.least);
    }

    pub(super) fn look_less(&mut self) {
        self.least = (self.look_interval() * 2).min(SLOWEST);
    }

    pub(super) fn look_more(&mut self) {
        self.least /= 2;
        if self.least < SHORTEST {
            self.least = Duration::ZERO;
        }
    }

    /// Hurries at once where much is missing after only a short time.
    pub(super) fn glanced(&mut self, glance: Review) {
        self.is_hurried |= glance.misses_samples() && (self.born > 0 || !self.threads_arm_themselves);
    }

    /// Hurries while samples are missing, and from then on for as long as threads are born.
    pub(super) fn reviewed(&mut self, review: Review) {
        let misses = review.misses_samples() && (self.born > 0 || !self.threads_arm_themselves);
        self.is_hurried = misses || (self.is_hurried && self.born > 0);
        self.born = 0;
    }
}

impl Review {
    fn misses_samples(&self) -> bool {
        let owed = 2 * self.period_nanos * (self.threads as u64 + 1);
        let missing = self.process_nanos.saturating_sub(self.sampled_nanos);
        missing > owed.max(self.process_nanos / 100 * MISSING_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const QUIET: Look = Look { samples: 3, slots: 2048, born: 0 };

    fn second(sampled_nanos: u64) -> Review {
        Review { process_nanos: SECOND, sampled_nanos, period_nanos: SECOND / 99, threads: 4 }
    }

    #[test]
    fn full_slots_hurry_and_empty_ones_do_not() {
        let mut pace = Pace::new();
        pace.looked(Look { samples: 1000, ..QUIET });
        assert_eq!(pace.pause(), FIRST / 2);
        (0..5).for_each(|_| pace.looked(Look { samples: 1000, ..QUIET }));
        assert_eq!(pace.pause(), SHORTEST);
        pace.looked(Look { samples: 100, ..QUIET });
        assert_eq!(pace.pause(), SHORTEST);
        (0..9).for_each(|_| pace.looked(QUIET));
        assert_eq!(pace.pause(), LONGEST);
    }

    #[test]
    fn new_threads_are_looked_for_sooner() {
        let mut pace = Pace::new();
        (0..9).for_each(|_| pace.looked(QUIET));
        pace.looked(Look { born: 1, ..QUIET });
        assert_eq!(pace.pause(), FIRST);
        pace.looked(QUIET);
        assert_eq!(pace.pause(), FIRST * 2);
    }

    #[test]
    fn looks_that_cost_too_much_are_rarer_and_collections_are_not() {
        let mut pace = Pace::new();
        pace.reviewed(second(SECOND / 2));
        (0..4).for_each(|_| pace.look_less());
        assert_eq!((pace.look_interval(), pace.pause()), (SHORTEST * 16, FIRST));
        assert!(!pace.is_look_due(FIRST) && pace.is_look_due(SHORTEST * 16));
        (0..20).for_each(|_| pace.look_less());
        assert_eq!(pace.look_interval(), SLOWEST);
        assert!(!pace.room(1, 99).looks_less && pace.room(1, 99).looks_more);
        (0..20).for_each(|_| pace.look_more());
        assert_eq!(pace.look_interval(), SHORTEST);
        assert!(!pace.is_slowed());
    }

    #[test]
    fn missing_time_hurries_until_no_thread_is_born_any_more() {
        let mut pace = Pace::new();
        (0..9).for_each(|_| pace.looked(QUIET));
        pace.reviewed(second(SECOND / 100 * 96));
        assert_eq!(pace.pause(), LONGEST);
        pace.reviewed(second(SECOND / 2));
        assert_eq!(pace.pause(), SHORTEST);
        pace.looked(Look { born: 3, ..QUIET });
        pace.reviewed(second(SECOND));
        assert_eq!(pace.pause(), SHORTEST, "they are seen only because of it");
        (0..9).for_each(|_| pace.looked(QUIET));
        pace.reviewed(second(SECOND));
        assert_eq!(pace.pause(), LONGEST);
    }

    #[test]
    fn a_glance_hurries_and_leaves_it_to_a_review_to_end_that() {
        let mut pace = Pace::new();
        pace.glanced(second(SECOND));
        assert_eq!(pace.pause(), FIRST);
        pace.glanced(second(SECOND / 2));
        pace.glanced(second(SECOND));
        assert_eq!(pace.pause(), SHORTEST);
        pace.reviewed(second(SECOND));
        assert_eq!(pace.pause(), FIRST);
    }

    #[test]
    fn threads_that_say_that_they_start_are_not_looked_for() {
        let mut pace = Pace::new().with_self_arming_threads(true);
        (0..9).for_each(|_| pace.looked(QUIET));
        assert_eq!((pace.look_interval(), pace.pause()), (LONGEST_IF_ARMED, LONGEST_TO_COLLECT_IF_ARMED));
        pace.glanced(second(SECOND / 2));
        pace.reviewed(second(SECOND / 2));
        assert_eq!(pace.look_interval(), LONGEST_IF_ARMED, "more looks would find nothing");
        // Some do not say it, those of a C library for instance.
        pace.looked(Look { born: 3, ..QUIET });
        pace.reviewed(second(SECOND / 2));
        assert_eq!(pace.look_interval(), SHORTEST);
    }

    #[test]
    fn at_a_low_frequency_a_few_periods_are_always_missing() {
        let mut pace = Pace::new();
        pace.reviewed(Review { period_nanos: SECOND / 2, ..second(0) });
        assert_eq!(pace.pause(), FIRST);
    }
}
