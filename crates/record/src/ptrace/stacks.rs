//! Chooses which calls have their stacks taken: reading a stack takes as long as the call, so only some are taken.

use flamelet_profile::Random;
use rustc_hash::FxHashMap;

use crate::collect::CallKey;

/// For each call of a thread, how many calls to skip until the next stack.
pub(super) struct Skips {
    by_call: FxHashMap<CallKey, Skip>,
    random: Random,
}

#[derive(Default)]
struct Skip {
    calls: u64,
    next: u64,
    last: u64,
}

/// The gap between stacks grows by one for every this many calls, so that rare calls all have stacks, and a million
/// calls have a few thousand.
const SHARE: u64 = 512;

impl Default for Skips {
    fn default() -> Self {
        Self { by_call: FxHashMap::default(), random: Random::new(0x9e37_79b9_7f4a_7c15) }
    }
}

impl Skips {
    /// Counts a call. If its stack is to be taken, returns the number of calls that it stands for.
    pub(super) fn count(&mut self, call: CallKey) -> Option<u64> {
        let skip = self.by_call.entry(call).or_default();
        skip.calls += 1;
        if skip.calls < skip.next {
            return None;
        }
        let weight = skip.calls - skip.last;
        skip.last = skip.calls;
        // Random, because a fixed period might always hit the same place in the program's loop.
        skip.next = skip.calls + 1 + self.random.below(2 * skip.calls / SHARE + 1);
        Some(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_few_and_fair() {
        let mut skips = Skips::default();
        let key = |number| CallKey { thread: 1, number, arguments: None };
        let (mut stacks, mut weights) = (0, [0u64; 4]);
        for call in 0..400_000 {
            if let Some(weight) = skips.count(key(0)) {
                stacks += 1;
                weights[call % 4] += weight;
            }
        }
        assert!((1_000..8_000).contains(&stacks), "{stacks}");
        let sum: u64 = weights.iter().sum();
        assert!(sum > 390_000);
        for weight in weights {
            assert!((sum / 5..sum * 3 / 10).contains(&weight), "{weights:?}");
        }
        assert_eq!(skips.count(key(7)), Some(1));
    }
}
