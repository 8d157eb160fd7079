//! The same as [`costs`](super::costs()) for plain numbers, in fewer steps: what passes through a frame is what the running
//! total grew by while the frame was open, so that nothing has to be handed from frame to frame.

use std::ops::Range;

use flamelet_profile::{LocationId, Profile};

use super::EntryCost;
use super::halves::in_halves;
use super::table::FrameTable;

/// Returns the cost of each of the `count` entries of `table` in the values of all samples in the column `index`; `None` if
/// these are so large that sums might overflow.
pub(crate) fn sums(
    profile: &Profile,
    table: &FrameTable,
    count: usize,
    index: usize,
) -> Option<Vec<EntryCost<i64>>> {
    let mut magnitudes = profile.samples().map(|sample| sample.values[index].checked_abs());
    magnitudes.try_fold(0i64, |sum, value| sum.checked_add(value?))?;
    let part = |samples| RunningSums::new(table, count).of(profile, samples, index);
    let mut parts = in_halves(profile.sample_count(), count, part).into_iter();
    let mut all = parts.next()?;
    for part in parts {
        for (sum, more) in all.iter_mut().zip(part) {
            sum.flat += more.flat;
            sum.cum += more.cum;
        }
    }
    Some(all)
}

/// An entry of the current stack.
#[derive(Clone, Copy)]
struct OpenEntry {
    entry: u32,
    /// The running total when it was entered.
    before: i64,
}

struct RunningSums<'a> {
    table: &'a FrameTable,
    costs: Vec<EntryCost<i64>>,
    /// The entries of the current stack, outermost first. One that recursion repeats is there once.
    open: Vec<OpenEntry>,
    /// Where the entries of each location end in `open`.
    ends: Vec<u32>,
    /// Whether each entry is in `open`. Kept apart because it is asked for every frame, and so small that it stays in the
    /// fastest cache.
    is_open: Vec<bool>,
    total: i64,
}

impl<'a> RunningSums<'a> {
    fn new(table: &'a FrameTable, count: usize) -> Self {
        Self {
            table,
            costs: vec![EntryCost::default(); count],
            open: Vec::new(),
            ends: Vec::new(),
            is_open: vec![false; count],
            total: 0,
        }
    }

    fn of(mut self, profile: &Profile, samples: Range<usize>, index: usize) -> Vec<EntryCost<i64>> {
        let mut last = None;
        for sample in samples.map(|row| profile.sample(row)) {
            let value = sample.values[index];
            if value == 0 {
                continue;
            }
            let stack = profile.stack(sample.stack);
            let shared = last.map_or(0, |last| profile.shared_outer_frames(sample.stack, last));
            self.leave_to(shared);
            self.enter(&stack[..stack.len() - shared]);
            if let Some(&leaf) = stack.first().and_then(|&leaf| self.table.at(leaf).first()) {
                self.costs[leaf as usize].flat += value;
            }
            self.total += value;
            last = Some(sample.stack);
        }
        self.leave_to(0);
        self.costs
    }

    /// Enters locations, the last of them first.
    #[inline]
    fn enter(&mut self, locations: &[LocationId]) {
        for &location in locations.iter().rev() {
            for &entry in self.table.at(location) {
                if !std::mem::replace(&mut self.is_open[entry as usize], true) {
                    self.open.push(OpenEntry { entry, before: self.total });
                }
            }
            self.ends.push(self.open.len() as u32);
        }
    }

    /// Leaves all locations but the outermost `count`.
    #[inline]
    fn leave_to(&mut self, count: usize) {
        self.ends.truncate(count);
        let keep = self.ends.last().map_or(0, |&end| end as usize);
        for &OpenEntry { entry, before } in &self.open[keep..] {
            self.is_open[entry as usize] = false;
            self.costs[entry as usize].cum += self.total - before;
        }
        self.open.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{ProfileBuilder, StackId};

    use super::super::costs;
    use super::*;
    use crate::stacks::Nodes;

    /// A profile of stacks that often share their outer frames and that repeat functions, inlined ones too.
    fn profile(stacks: u64, value: impl Fn(u64) -> i64) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let functions: Vec<_> = (0..7).map(|at| builder.named_function(&format!("f{at}"), "a.rs")).collect();
        let frames: Vec<_> = functions.iter().map(|&function| builder.frame(function, 0)).collect();
        let mut random = 1u64;
        for row in 0..stacks {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let depth = (random >> 60) as usize;
            let stack: Vec<_> = (0..depth).map(|at| frames[(random >> (4 * at)) as usize % 7]).collect();
            let stack = builder.stack(&stack);
            builder.sample(stack, Default::default(), &[1, value(row)]);
        }
        builder.finish()
    }

    #[test]
    fn sums_are_those_of_the_general_walk() {
        for (stacks, value) in [
            (0, (|_| 1) as fn(u64) -> i64),
            (1000, |row| row as i64 % 5),
            (1000, |row| row as i64 % 7 - 3),
            (100_000, |row| 1 + row as i64 % 3),
        ] {
            let profile = profile(stacks, value);
            let nodes = Nodes::of(&profile, false);
            let samples = profile.samples().map(|sample| (sample.stack, sample.values[1]));
            let all: Vec<(StackId, i64)> = samples.filter(|(_, value)| *value != 0).collect();
            let known = costs(&profile, &nodes.table, nodes.len(), all.into_iter());
            let found = sums(&profile, &nodes.table, nodes.len(), 1).expect("small values");
            let pair = |cost: &EntryCost<i64>| (cost.flat, cost.cum);
            assert!(found.iter().map(pair).eq(known.iter().map(pair)), "{stacks}");
        }
    }

    #[test]
    fn values_that_might_overflow_are_left_to_the_general_walk() {
        for value in [i64::MAX, i64::MIN] {
            let profile = profile(2, |_| value);
            let nodes = Nodes::of(&profile, false);
            assert!(sums(&profile, &nodes.table, nodes.len(), 1).is_none());
        }
    }
}
