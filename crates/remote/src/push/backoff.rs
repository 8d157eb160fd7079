//! How long to wait before the next try: longer each time, and never for the same time as others.

use std::time::Duration;

use flamelet_profile::Random;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The wait between tries.
#[derive(Debug)]
pub struct Backoff {
    /// How often it has failed in a row.
    failures: u32,
    random: Random,
}

impl Backoff {
    /// Starts with the shortest wait. The seed should differ from process to process.
    pub fn new(seed: u64) -> Self {
        Self { failures: 0, random: Random::new(seed) }
    }

    /// Starts again from the shortest wait, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns how long to wait: at least as long as the receiver demands, plus up to half as much at random, so that
    /// many services do not return at the same moment.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let usual = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let least = asked.map_or(usual / 2, |asked| asked.max(usual / 2));
        least + (usual / 2).mul_f64(self.random.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_minute_and_differ() {
        let (mut one, mut other) = (Backoff::new(7), Backoff::new(8));
        let waits: Vec<Duration> = (0..20).map(|_| one.next(None)).collect();
        for (at, wait) in waits.iter().enumerate() {
            let usual = Duration::from_secs(1 << at.min(6)).min(LONGEST);
            assert!((usual / 2..=usual).contains(wait), "{at}: {wait:?}");
        }
        assert_ne!(waits, (0..20).map(|_| other.next(None)).collect::<Vec<_>>());
        one.reset();
        assert!(one.next(None) <= FIRST);
        assert!(one.next(Some(Duration::from_secs(90))) >= Duration::from_secs(90));
    }
}
