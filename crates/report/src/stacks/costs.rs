//! What each entry costs by itself and with all it calls, without the calls: enough for `top`, even of millions of
//! stacks.

use std::ops::AddAssign;

use flamelet_profile::{Profile, StackId};

use super::table::FrameTable;
use super::walk::{OpenFrame, Visitor, walk};

/// What an entry costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryCost<W> {
    /// By itself: the stacks in which it is the innermost frame.
    pub(crate) flat: W,
    /// With all it calls: the stacks that hold it anywhere, each counted once.
    pub(crate) cum: W,
}

/// What each of the `count` entries of `table` costs in `stacks`.
pub(crate) fn costs<W: Copy + Default + AddAssign>(
    profile: &Profile,
    table: &FrameTable,
    count: usize,
    stacks: impl Iterator<Item = (StackId, W)>,
) -> Vec<EntryCost<W>> {
    let mut sums = Sums(vec![EntryCost::default(); count]);
    walk(profile, table, count, stacks, &mut sums);
    sums.0
}

struct Sums<W>(Vec<EntryCost<W>>);

impl<W: Copy + AddAssign> Visitor<W> for Sums<W> {
    fn end(&mut self, leaf: &OpenFrame<W>, weight: W) {
        self.0[leaf.entry as usize].flat += weight;
    }

    fn leave(&mut self, frame: &OpenFrame<W>) {
        if frame.is_first {
            self.0[frame.entry as usize].cum += frame.weight;
        }
    }
}
