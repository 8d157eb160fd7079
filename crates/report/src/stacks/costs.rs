//! The own and cumulative cost of each entry, without the calls between them: enough for `top`, and fast even for
//! millions of stacks.

use std::ops::AddAssign;

use flamelet_profile::{Profile, StackId};

use super::table::FrameTable;
use super::walk::{OpenFrame, Visitor, walk};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryCost<W> {
    /// Its own cost: the stacks in which it is the innermost frame.
    pub(crate) flat: W,
    /// Its cumulative cost: the stacks that contain it anywhere, each counted once.
    pub(crate) cum: W,
}

/// Returns the cost of each of the `count` entries of `table` in `stacks`.
pub(crate) fn costs<W: Copy + Default + AddAssign>(
    profile: &Profile,
    table: &FrameTable,
    count: usize,
    stacks: impl Iterator<Item = (StackId, W)>,
) -> Vec<EntryCost<W>> {
    let mut sums = EntrySums(vec![EntryCost::default(); count]);
    walk(profile, table, count, stacks, &mut sums);
    sums.0
}

struct EntrySums<W>(Vec<EntryCost<W>>);

impl<W: Copy + AddAssign> Visitor<W> for EntrySums<W> {
    fn end(&mut self, leaf: &OpenFrame<W>, weight: W) {
        self.0[leaf.entry as usize].flat += weight;
    }

    fn leave(&mut self, frame: &OpenFrame<W>) {
        if frame.is_first {
            self.0[frame.entry as usize].cum += frame.weight;
        }
    }
}
