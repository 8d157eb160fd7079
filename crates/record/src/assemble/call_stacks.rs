//! Distributes the counts of system calls over the stacks that made them.

use crate::collect::{Row, StackNumber};

/// The stacks from which a thread was seen to make a system call, with their weights.
#[derive(Default)]
pub(super) struct CallStacks {
    regular: Vec<(StackNumber, u64)>,
    frequent: Vec<(StackNumber, u64)>,
    regular_count: u64,
}

impl CallStacks {
    pub(super) fn add(&mut self, row: &Row, is_regular: bool) {
        let stack = (row.key.stack, row.amount);
        if is_regular {
            self.regular.push(stack);
            self.regular_count += row.count;
        } else {
            self.frequent.push(stack);
        }
    }

    /// Prefers the samples taken every n-th call: if there are enough of them, they show best which stack calls how
    /// often.
    pub(super) fn best(self) -> Vec<(StackNumber, u64)> {
        const ENOUGH: u64 = 20;
        if self.regular_count >= ENOUGH || self.frequent.is_empty() { self.regular } else { self.frequent }
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
