//! Which polls are sampled: all, unless a thread polls very often.

use std::cell::Cell;

use crate::tables::{mix, next_random};

/// The chance is adapted once in this time.
const WINDOW: u64 = 10_000_000;

/// This many samples in a window, with about 10 µs for each, cost a thousandth of it.
const MANY: u64 = 1;

/// How many more a new thread may sample: so all tasks that a service makes when it starts are seen, even those that
/// are never polled again.
const CREDIT: u64 = 4096;

/// How many more it may sample later, after it has sampled little for a while. This is less, because otherwise load
/// that comes and goes would be slow each time that it comes.
const EARNED: u64 = 128;

/// At least one poll in this many is sampled.
const RAREST: u32 = 1 << 16;

/// The pace of one kind of samples on one thread.
pub(super) struct Pace {
    /// One less than how many polls a sample stands for.
    mask: Cell<u32>,
    taken: Cell<u64>,
    /// How many more samples it may take than usual.
    credit: Cell<u64>,
    window: Cell<u64>,
    /// How many are passed over before the next sample.
    skip: Cell<u32>,
    random: Cell<u64>,
}

thread_local! {
    static OFTEN: Pace = const { Pace::new() };
    static SELDOM: Pace = const { Pace::new() };
    static BIRTHS: Pace = const { Pace::new() };
}

/// Decides about a poll that starts `now`; returns how many polls it stands for if it is sampled. Polls of tasks that are polled
/// seldom have a pace of their own: a task that is polled all the time would hide them.
#[inline]
pub(super) fn sample(now: u64, is_seldom: bool) -> Option<u64> {
    match is_seldom {
        true => SELDOM.with(|pace| pace.sample(now)),
        false => OFTEN.with(|pace| pace.sample(now)),
    }
}

/// Decides whether the stack of a task that is made `now` is kept.
#[inline]
pub(super) fn sample_birth(now: u64) -> bool {
    BIRTHS.with(|pace| pace.sample(now)).is_some()
}

impl Pace {
    const fn new() -> Self {
        Self {
            mask: Cell::new(0),
            taken: Cell::new(0),
            credit: Cell::new(CREDIT),
            window: Cell::new(0),
            skip: Cell::new(0),
            random: Cell::new(0),
        }
    }

    #[inline]
    fn sample(&self, now: u64) -> Option<u64> {
        if now.wrapping_sub(self.window.get()) >= WINDOW || self.taken.get() >= 2 * MANY {
            self.adapt(now);
        }
        match self.skip.get().checked_sub(1) {
            Some(left) => {
                self.skip.set(left);
                None
            }
            None => Some(self.take()),
        }
    }

    /// Counts a sample and returns what it stands for.
    #[inline(never)]
    fn take(&self) -> u64 {
        self.taken.set(self.taken.get() + 1);
        self.skip.set(self.gap());
        u64::from(self.mask.get()) + 1
    }

    /// Returns how many to pass over, at random: as many as if each were sampled with the same chance.
    fn gap(&self) -> u32 {
        match self.mask.get() {
            0 => 0,
            mask => {
                let chance = 1.0 / (f64::from(mask) + 1.0);
                let random = (f64::from(self.random()) + 1.0) / (f64::from(u32::MAX) + 1.0);
                (random.ln() / (-chance).ln_1p()) as u32
            }
        }
    }

    #[cold]
    fn adapt(&self, now: u64) {
        let (mask, taken) = (self.mask.get(), self.taken.replace(0));
        let windows = now.saturating_sub(self.window.get()) / WINDOW;
        if windows > 0 {
            self.window.set(now);
        }
        let credit = self.credit.get();
        let earned = windows.saturating_mul(MANY).saturating_add(credit).min(EARNED);
        let credit = credit.max(earned).saturating_sub(taken);
        self.credit.set(credit);
        let adapted = match credit {
            0 => (mask << 1 | 1).min(RAREST - 1),
            // Some were left over: sample more.
            _ => mask >> 1,
        };
        if adapted != mask {
            self.mask.set(adapted);
            self.skip.set(self.gap());
        }
    }

    fn random(&self) -> u32 {
        let mut state = match self.random.get() {
            0 => mix(std::ptr::from_ref(self) as u64 ^ self.window.get()),
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

    #[test]
    fn few_polls_are_all_sampled() {
        let pace = Pace::new();
        assert!((0..10_000).all(|poll| pace.sample(poll * WINDOW / MANY) == Some(1)));
    }

    #[test]
    fn many_tasks_at_once_are_all_seen() {
        let pace = Pace::new();
        assert!((0..CREDIT - 2 * MANY).all(|poll| pace.sample(WINDOW + poll * 1000) == Some(1)));
        // And again, after a while.
        let later = 100 * 1_000_000_000;
        assert!((0..100).all(|poll| pace.sample(later + poll * WINDOW).is_some()));
        let burst = later + 1000 * WINDOW;
        assert!((0..EARNED - 2 * MANY).all(|poll| pace.sample(burst + poll * 1000) == Some(1)));
    }

    #[test]
    fn gaps_are_on_average_as_long_as_the_chance_says() {
        const GAPS: u32 = 100_000;
        for mask in [0, 1, 7, 1023, RAREST - 1] {
            let pace = Pace::new();
            pace.mask.set(mask);
            let sum: f64 = (0..GAPS).map(|_| f64::from(pace.gap())).sum();
            let average = sum / f64::from(GAPS);
            // Ten standard deviations.
            let tolerance = 10.0 * (f64::from(mask) + 1.0) / f64::from(GAPS).sqrt();
            assert!((average - f64::from(mask)).abs() <= tolerance, "{average} for {mask}");
        }
    }

    #[test]
    fn load_that_comes_and_goes_costs_no_more_than_load_that_stays() {
        const BURSTS: u64 = 10;
        let pace = Pace::new();
        // A million polls a second, for a tenth of a second every ten seconds.
        let burst = |number: u64| {
            let start = (1 + number) * 1000 * WINDOW;
            (0..10 * WINDOW).step_by(1000).filter(|poll| pace.sample(start + poll).is_some()).count() as u64
        };
        let first = burst(0);
        assert!(first >= CREDIT, "{first}: a thread that begins samples more");
        let later: Vec<u64> = (1..BURSTS).map(burst).collect();
        assert!(later.iter().all(|sampled| *sampled < CREDIT / 8), "{later:?}");
    }

    #[test]
    fn of_many_polls_few_are_sampled_and_stand_for_all() {
        let pace = Pace::new();
        const SECONDS: u64 = 10;
        let (polls, mut sampled, mut sum) = (SECONDS * 1_000_000, 0, 0);
        for poll in 0..polls {
            // A million a second.
            if let Some(weight) = pace.sample(poll * 1000) {
                sampled += 1;
                sum += weight;
            }
        }
        // A second has a hundred windows.
        assert!(sampled < SECONDS * 100 * 2 * MANY + CREDIT, "{sampled}");
        let error = (sum as f64 - polls as f64).abs() / polls as f64;
        assert!(error < 0.2, "{sum} of {polls}");
        // And soon all again, when there are few.
        let later = 2 * SECONDS * 1_000_000_000;
        assert!((0..100).map(|poll| pace.sample(later + poll * WINDOW)).any(|weight| weight == Some(1)));
    }
}
