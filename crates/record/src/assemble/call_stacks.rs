//! Distributes the counts of system calls over the stacks that made them.

use rustc_hash::FxHashMap;

use crate::collect::{CallKey, Findings, Meaning, SampleRow, StackNumber};

/// The stacks from which a thread was seen to make a system call, with their weights.
#[derive(Default)]
pub(super) struct CallStacks {
    regular: Vec<(StackNumber, u64)>,
    regular_count: u64,
    every: Vec<(StackNumber, u64)>,
    every_count: u64,
}

pub(super) fn seen_stacks(findings: &Findings) -> FxHashMap<CallKey, CallStacks> {
    let mut stacks: FxHashMap<CallKey, CallStacks> = FxHashMap::default();
    for row in &findings.rows.rows {
        if let Meaning::Syscall { number, arguments, is_regular } = row.key.meaning {
            let key = CallKey { thread: row.key.thread, number, arguments };
            stacks.entry(key).or_default().add(row, is_regular);
        }
    }
    stacks
}

impl CallStacks {
    fn add(&mut self, row: &SampleRow, is_regular: bool) {
        let stack = (row.key.stack, row.amount);
        if is_regular {
            self.regular.push(stack);
            self.regular_count += row.count;
        } else {
            self.every.push(stack);
            self.every_count += row.count;
        }
    }

    /// Returns the stacks that show best how often each makes the call: those of nearly every one of the `calls`, or
    /// enough of those taken every n-th call, or any.
    pub(super) fn best(self, calls: u64) -> Vec<(StackNumber, u64)> {
        const ENOUGH: u64 = 20;
        let has_most = self.every_count * 10 >= calls * 9;
        if !has_most && self.regular_count >= ENOUGH || self.every.is_empty() {
            self.regular
        } else {
            self.every
        }
    }
}

/// The stacks from which other threads of a program make a system call.
#[derive(Default)]
pub(super) struct Elsewhere {
    stacks: Vec<(StackNumber, u64)>,
    /// The sum of the weights.
    sum: u64,
    /// Between 0 and 1: where along the weights the next stack is taken.
    at: f64,
}

impl Elsewhere {
    pub(super) fn add(&mut self, stacks: &[(StackNumber, u64)]) {
        self.stacks.extend_from_slice(stacks);
        self.sum += stacks.iter().map(|(_, weight)| weight).sum::<u64>();
    }

    /// Returns one stack, each in proportion to its weight. Multiples of the golden ratio are spread evenly.
    pub(super) fn next(&mut self) -> Option<(StackNumber, u64)> {
        const GOLDEN: f64 = 0.618_033_988_749_895;
        self.at = (self.at + GOLDEN).fract();
        let mut left = (self.at * self.sum as f64) as u64;
        let is_it = |(_, weight): &&(StackNumber, u64)| match left.checked_sub(*weight) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        };
        self.stacks.iter().find(is_it).copied()
    }
}

/// Distributes `totals` by `weights` so that each total is preserved exactly. Without weights, everything goes to one
/// share.
pub(super) fn shares(totals: &[u64; 3], weights: &[u64]) -> Vec<[i64; 3]> {
    let one = [1];
    let weights = if weights.iter().all(|&weight| weight == 0) { &one } else { weights };
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let mut before: u128 = 0;
    weights
        .iter()
        .map(|&weight| {
            let until = before + u128::from(weight);
            let part = |total: u64| {
                let at = |weight: u128| u128::from(total) * weight / sum;
                (at(until) - at(before)) as i64
            };
            let share = totals.map(part);
            before = until;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_census_is_better_than_a_sample_and_a_sample_than_a_few() {
        let stacks = |regular_count, every_count| CallStacks {
            regular: vec![(StackNumber(1), 1)],
            regular_count,
            every: vec![(StackNumber(2), 1)],
            every_count,
        };
        let best = |stacks: CallStacks, calls| stacks.best(calls)[0].0;
        assert_eq!(best(stacks(100, 95), 100), StackNumber(2));
        assert_eq!(best(stacks(20, 500), 10_000), StackNumber(1));
        assert_eq!(best(stacks(3, 500), 10_000), StackNumber(2));
        let none = CallStacks { every: Vec::new(), ..stacks(3, 0) };
        assert_eq!(best(none, 10_000), StackNumber(1));
    }

    #[test]
    fn other_threads_lend_their_stacks_by_weight() {
        let mut elsewhere = Elsewhere::default();
        assert_eq!(elsewhere.next(), None);
        elsewhere.add(&[(StackNumber(1), 30), (StackNumber(2), 10)]);
        let lent: Vec<StackNumber> = (0..400).filter_map(|_| Some(elsewhere.next()?.0)).collect();
        let first = lent.iter().filter(|stack| **stack == StackNumber(1)).count();
        assert_eq!(lent.len(), 400);
        assert!(first.abs_diff(300) <= 4, "{first}");
    }

    #[test]
    fn shares_add_up_to_the_totals() {
        let totals = [1_000_001, 7, u64::from(u32::MAX) * 1000];
        for weights in [&[][..], &[0], &[1], &[3, 1, 1], &[1, 0, 997, 2]] {
            let shared = shares(&totals, weights);
            assert_eq!(shared.len(), weights.len().max(1));
            for (column, total) in totals.iter().enumerate() {
                assert_eq!(shared.iter().map(|share| share[column]).sum::<i64>(), *total as i64);
            }
        }
    }
}
