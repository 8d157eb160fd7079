//! Which calls have their stacks taken: reading one takes as long as the call, so of many calls only some have.

use rustc_hash::FxHashMap;

/// For each thread and call, how many calls until the next stack.
pub(super) struct Skips {
    by_call: FxHashMap<(u32, i64), Skip>,
    random: u64,
}

#[derive(Default)]
struct Skip {
    calls: u64,
    next: u64,
    last: u64,
}

/// Stacks are taken further apart the more there were: every one of so many calls, so that rare calls have stacks, and
/// some thousand of a million.
const SHARE: u64 = 512;

impl Default for Skips {
    fn default() -> Self {
        Self { by_call: FxHashMap::default(), random: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Skips {
    /// A thread makes a call. Returns for how many calls its stack counts, if it is to be taken.
    pub(super) fn count(&mut self, thread: u32, number: i64) -> Option<u64> {
        let random = self.random();
        let skip = self.by_call.entry((thread, number)).or_default();
        skip.calls += 1;
        if skip.calls < skip.next {
            return None;
        }
        let weight = skip.calls - skip.last;
        skip.last = skip.calls;
        // Not every so many calls: that may always meet the same place of the program's loop.
        skip.next = skip.calls + 1 + random % (2 * skip.calls / SHARE + 1);
        Some(weight)
    }

    /// xorshift64.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_few_and_fair() {
        let mut skips = Skips::default();
        let (mut stacks, mut weights) = (0, [0u64; 4]);
        for call in 0..400_000 {
            if let Some(weight) = skips.count(1, 0) {
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
        assert_eq!(skips.count(1, 7), Some(1));
    }
}
