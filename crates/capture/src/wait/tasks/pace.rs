//! Which polls are sampled: all, unless a thread polls very often.

use std::cell::Cell;

use crate::tables::{mix, next_random};

/// The chance is adapted once in this time.
const WINDOW: u64 = 10_000_000;

/// So many samples in a window cost less than a percent of it.
const MANY: u32 = 32;
const FEW: u32 = 8;

/// At least one poll in so many is sampled.
const RAREST: u32 = 1 << 16;

struct Pace {
    /// One less than how many polls a sample stands for.
    mask: Cell<u32>,
    taken: Cell<u32>,
    window_ends: Cell<u64>,
    random: Cell<u64>,
}

thread_local! {
    static PACE: Pace = const {
        Pace { mask: Cell::new(0), taken: Cell::new(0), window_ends: Cell::new(0), random: Cell::new(0) }
    };
}

/// Decides about a poll that starts `now`; returns how many polls it stands for if it is sampled.
#[inline]
pub(super) fn sample(now: u64) -> Option<u64> {
    PACE.with(|pace| pace.sample(now))
}

impl Pace {
    #[inline]
    fn sample(&self, now: u64) -> Option<u64> {
        if now >= self.window_ends.get() || self.taken.get() >= 2 * MANY {
            self.adapt(now);
        }
        let mask = self.mask.get();
        if mask != 0 && self.random() & mask != 0 {
            return None;
        }
        self.taken.set(self.taken.get() + 1);
        Some(u64::from(mask) + 1)
    }

    #[cold]
    fn adapt(&self, now: u64) {
        let mask = self.mask.get();
        let new = match self.taken.replace(0) {
            MANY.. => (mask << 1 | 1).min(RAREST - 1),
            0..FEW => mask >> 1,
            _ => mask,
        };
        self.mask.set(new);
        self.window_ends.set(now.saturating_add(WINDOW));
    }

    fn random(&self) -> u32 {
        let mut state = match self.random.get() {
            0 => mix(std::ptr::from_ref(self) as u64 ^ self.window_ends.get()),
            state => state,
        };
        let number = next_random(&mut state);
        self.random.set(state);
        (number >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace { mask: Cell::new(0), taken: Cell::new(0), window_ends: Cell::new(0), random: Cell::new(0) }
    }

    #[test]
    fn few_polls_are_all_sampled() {
        let pace = pace();
        assert!((0..1000).all(|poll| pace.sample(poll * WINDOW / 7) == Some(1)));
    }

    #[test]
    fn of_many_polls_few_are_sampled_and_stand_for_all() {
        let pace = pace();
        let (polls, mut sampled, mut sum) = (1_000_000u64, 0, 0);
        for poll in 0..polls {
            // A million a second.
            if let Some(weight) = pace.sample(poll * 1000) {
                sampled += 1;
                sum += weight;
            }
        }
        // A second has a hundred windows.
        assert!(sampled < 100 * 3 * u64::from(MANY), "{sampled}");
        let error = (sum as f64 - polls as f64).abs() / polls as f64;
        assert!(error < 0.2, "{sum} of {polls}");
        // And soon all again, when there are few.
        assert!(
            (0..100).map(|poll| pace.sample(2_000_000_000 + poll * WINDOW)).any(|weight| weight == Some(1))
        );
    }
}
