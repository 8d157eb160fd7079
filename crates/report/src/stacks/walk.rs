//! Walks all stacks from their roots, doing the work only once for neighbours that share their outer frames.
//!
//! Neighbouring stacks in files are similar, so most of a stack equals the previous one. A frame collects the weight
//! of all stacks that pass through it and reports it once, at the first stack without it.

use std::ops::AddAssign;

use flamelet_profile::{Profile, StackId};

use super::table::FrameTable;

/// A frame of the current stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFrame<W> {
    /// What the frame stands for.
    pub(crate) entry: u32,
    /// The entry does not occur further up in the stack.
    pub(crate) is_first: bool,
    /// The weight of all stacks that passed through the frame so far.
    pub(crate) weight: W,
}

/// The callbacks of [`walk`].
pub(crate) trait Visitor<W> {
    /// Called when a frame is entered, below `_above`; it may be inlined into the last of those.
    fn enter(&mut self, _above: &[OpenFrame<W>], _frame: &OpenFrame<W>, _is_inlined: bool) {}

    /// Called when a stack of this weight ends in the frame.
    fn end(&mut self, _leaf: &OpenFrame<W>, _weight: W) {}

    /// Called for a stack of this weight that has no frames.
    fn end_empty(&mut self, _weight: W) {}

    /// Called when a frame is left, with the weight of everything that passed through it.
    fn leave(&mut self, frame: &OpenFrame<W>);
}

/// Walks `stacks`, whose frames stand for the `count` entries of `table`.
pub(crate) fn walk<W: Copy + Default + AddAssign>(
    profile: &Profile,
    table: &FrameTable,
    count: usize,
    stacks: impl Iterator<Item = (StackId, W)>,
    visitor: &mut impl Visitor<W>,
) {
    let mut path = Path { frames: Vec::new(), ends: Vec::new(), depth: vec![0; count], visitor };
    let mut last = None;
    for (id, weight) in stacks {
        let stack = profile.stack(id);
        let shared = last.map_or(0, |last| profile.shared_outer_frames(id, last));
        path.leave_to(shared);
        for &location in stack[..stack.len() - shared].iter().rev() {
            path.enter(table.at(location));
        }
        path.end(weight);
        last = Some(id);
    }
    path.leave_to(0);
}

struct Path<'a, W, V> {
    frames: Vec<OpenFrame<W>>,
    /// Where the frames of each location end.
    ends: Vec<usize>,
    /// How often each entry is on the path.
    depth: Vec<u32>,
    visitor: &'a mut V,
}

impl<W: Copy + Default + AddAssign, V: Visitor<W>> Path<'_, W, V> {
    fn enter(&mut self, entries: &[u32]) {
        for (at, &entry) in entries.iter().enumerate().rev() {
            let depth = &mut self.depth[entry as usize];
            let frame = OpenFrame { entry, is_first: *depth == 0, weight: W::default() };
            *depth += 1;
            self.visitor.enter(&self.frames, &frame, at + 1 != entries.len());
            self.frames.push(frame);
        }
        self.ends.push(self.frames.len());
    }

    fn end(&mut self, weight: W) {
        match self.frames.last() {
            Some(leaf) => self.visitor.end(leaf, weight),
            None => self.visitor.end_empty(weight),
        }
        self.add(weight);
    }

    fn add(&mut self, weight: W) {
        if let Some(leaf) = self.frames.last_mut() {
            leaf.weight += weight;
        }
    }

    /// Leaves all locations but the outermost `locations`.
    fn leave_to(&mut self, locations: usize) {
        self.ends.truncate(locations);
        let keep = self.ends.last().copied().unwrap_or(0);
        while self.frames.len() > keep {
            let Some(frame) = self.frames.pop() else { return };
            self.depth[frame.entry as usize] -= 1;
            self.visitor.leave(&frame);
            self.add(frame.weight);
        }
    }
}
