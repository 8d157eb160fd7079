//! Walking all stacks from their roots, with the work done once for neighbours that share their outer frames.
//!
//! Files come with neighbouring stacks alike, so most of a stack is that of the one before. A frame collects the
//! weight of all samples that pass it and hands it out once, when the first stack without it comes.

use crate::node::{NodeId, Nodes};
use crate::report::Report;

/// No node.
pub(super) const NOBODY: NodeId = NodeId::MAX;

/// A frame of the stacks at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) node: NodeId,
    /// The frame was inlined into the one above.
    pub(super) is_inlined: bool,
    /// The node is not further up in the stack already.
    pub(super) is_first: bool,
    /// For the visitor: which call this is, if it counts.
    pub(super) caller: NodeId,
    /// What all samples that passed the frame so far cost.
    pub(super) weight: i64,
    pub(super) divisor: i64,
}

/// What to do on the way.
pub(super) trait Visitor {
    /// A frame is entered, below these.
    fn enter(&mut self, _above: &[Frame], _frame: &mut Frame) {}

    /// A frame is left, with all that passed it.
    fn leave(&mut self, frame: &Frame);
}

/// Walks all samples that cost anything.
pub(super) fn walk(report: &Report, nodes: &Nodes, visitor: &mut impl Visitor) {
    let profile = &report.profile;
    let mut path = Path { frames: Vec::new(), ends: Vec::new(), depth: vec![0; nodes.len()], visitor };
    let mut last: &[flamelet_profile::LocationId] = &[];
    for sample in profile.samples() {
        let (value, divisor) = (report.value(&sample), report.divisor(&sample));
        if value == 0 && divisor == 0 {
            continue;
        }
        let stack = profile.stack(sample.stack);
        let shared =
            std::iter::zip(stack.iter().rev(), last.iter().rev()).take_while(|(a, b)| a == b).count();
        path.leave_to(shared);
        for &location in stack[..stack.len() - shared].iter().rev() {
            path.enter(nodes.at(location));
        }
        path.add(value, divisor);
        last = stack;
    }
    path.leave_to(0);
}

struct Path<'a, V> {
    frames: Vec<Frame>,
    /// Where the frames of each location end.
    ends: Vec<usize>,
    /// How often each node is on the path.
    depth: Vec<u32>,
    visitor: &'a mut V,
}

impl<V: Visitor> Path<'_, V> {
    fn enter(&mut self, nodes: &[NodeId]) {
        for (at, &node) in nodes.iter().enumerate().rev() {
            let depth = &mut self.depth[node as usize];
            let mut frame = Frame {
                node,
                is_inlined: at + 1 != nodes.len(),
                is_first: *depth == 0,
                caller: NOBODY,
                weight: 0,
                divisor: 0,
            };
            *depth += 1;
            self.visitor.enter(&self.frames, &mut frame);
            self.frames.push(frame);
        }
        self.ends.push(self.frames.len());
    }

    fn add(&mut self, value: i64, divisor: i64) {
        if let Some(leaf) = self.frames.last_mut() {
            leaf.weight = leaf.weight.saturating_add(value);
            leaf.divisor = leaf.divisor.saturating_add(divisor);
        }
    }

    /// Leaves all but the outermost `locations`.
    fn leave_to(&mut self, locations: usize) {
        self.ends.truncate(locations);
        let keep = self.ends.last().copied().unwrap_or(0);
        while self.frames.len() > keep {
            let Some(frame) = self.frames.pop() else { return };
            self.depth[frame.node as usize] -= 1;
            self.visitor.leave(&frame);
            self.add(frame.weight, frame.divisor);
        }
    }
}
