//! Whether functions were inlined into their callers.

use flamelet_profile::{LocationId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::report::Report;
use crate::stacks::walk::shared_outer_frames;
use crate::stacks::{NodeId, Nodes};

/// How often a function was inlined into its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inlined {
    /// Never.
    No,
    /// Into some callers.
    Partly,
    /// Always.
    Yes,
}

impl Inlined {
    /// Returns what follows the function's name.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Partly => " (partial-inline)",
            Self::Yes => " (inline)",
        }
    }
}

/// Returns for each shown node whether calls to it were inlined. A call counts if it costs at least `cutoff` and its
/// caller is shown too; frames between the two do not matter.
pub(super) fn inlined(report: &Report, nodes: &Nodes, shown: &[NodeId], cutoff: i64) -> Vec<Inlined> {
    let mut is_shown = vec![false; nodes.len()];
    shown.iter().for_each(|&node| is_shown[node as usize] = true);
    let candidates = ever_inlined(&report.profile, nodes, &is_shown);
    if !candidates.contains(&true) {
        return vec![Inlined::No; shown.len()];
    }
    let frames = ShownFrames::of(&report.profile, nodes, &is_shown, &candidates);
    let mut calls = Calls::default();
    let mut last: &[LocationId] = &[];
    for (sample, cost) in report.weighed() {
        let stack = report.profile.stack(sample.stack);
        let shared = shared_outer_frames(stack, last);
        calls.leave_to(shared);
        for &location in stack[..stack.len() - shared].iter().rev() {
            calls.enter(frames.at(location));
        }
        calls.sum = calls.sum.wrapping_add(cost.sum);
        last = stack;
    }
    calls.leave_to(0);
    let ways = calls.ways(nodes.len(), cutoff);
    let mark = |&node: &NodeId| match ways[node as usize] {
        (true, true) => Inlined::Partly,
        (true, false) => Inlined::Yes,
        (false, _) => Inlined::No,
    };
    shown.iter().map(mark).collect()
}

/// Returns the shown nodes that are inlined somewhere; only their callers matter.
fn ever_inlined(profile: &Profile, nodes: &Nodes, is_shown: &[bool]) -> Vec<bool> {
    let mut ever = vec![false; nodes.len()];
    for row in 0..profile.locations().len() {
        if let [inner @ .., _] = nodes.at(LocationId::from_index(row)) {
            inner.iter().for_each(|&node| ever[node as usize] = is_shown[node as usize]);
        }
    }
    ever
}

#[derive(Clone, Copy)]
struct ShownFrame {
    node: NodeId,
    /// The node is inlined somewhere, so that its callers matter.
    is_candidate: bool,
    is_inlined: bool,
}

/// The frames of each location that stand for shown nodes, outermost first.
struct ShownFrames {
    /// Where the frames of each location start; has one element more than there are locations.
    starts: Vec<u32>,
    frames: Vec<ShownFrame>,
}

impl ShownFrames {
    fn of(profile: &Profile, nodes: &Nodes, is_shown: &[bool], candidates: &[bool]) -> Self {
        let (mut starts, mut frames) = (vec![0], Vec::new());
        for row in 0..profile.locations().len() {
            let entries = nodes.at(LocationId::from_index(row));
            let shown = entries.iter().enumerate().rev().filter(|(_, node)| is_shown[**node as usize]);
            frames.extend(shown.map(|(at, &node)| ShownFrame {
                node,
                is_candidate: candidates[node as usize],
                is_inlined: at + 1 != entries.len(),
            }));
            starts.push(u32::try_from(frames.len()).expect("a profile holds fewer than 2^32 lines"));
        }
        Self { starts, frames }
    }

    #[inline]
    fn at(&self, location: LocationId) -> &[ShownFrame] {
        let row = location.index();
        &self.frames[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

struct CandidateCall {
    weight: i64,
    is_inlined: bool,
}

/// A call of the current stack from a shown node to a candidate.
struct OpenCall {
    caller: NodeId,
    node: NodeId,
    is_inlined: bool,
    /// How many shown frames are outside it.
    depth: usize,
    /// The weight of all stacks before the first with this call.
    before: i64,
}

/// The calls from shown nodes to candidates, by caller and callee.
#[derive(Default)]
struct Calls {
    known: FxHashMap<(NodeId, NodeId), CandidateCall>,
    /// The shown nodes of the current stack.
    path: Vec<NodeId>,
    /// Where the nodes of each location end in `path`.
    ends: Vec<usize>,
    open: Vec<OpenCall>,
    /// The weight of all stacks so far. Only differences of it are used, so it may wrap around.
    sum: i64,
}

impl Calls {
    /// Enters a location.
    #[inline]
    fn enter(&mut self, frames: &[ShownFrame]) {
        for &frame in frames {
            if frame.is_candidate {
                self.call(frame);
            }
            self.path.push(frame.node);
        }
        self.ends.push(self.path.len());
    }

    /// Opens the call of a candidate from the innermost shown node.
    fn call(&mut self, ShownFrame { node, is_inlined, .. }: ShownFrame) {
        let Some(&caller) = self.path.last().filter(|&&caller| caller != node) else { return };
        // A call that recursion repeats counts once.
        if !self.open.iter().any(|open| open.node == node && open.caller == caller) {
            self.open.push(OpenCall { caller, node, is_inlined, depth: self.path.len(), before: self.sum });
        }
    }

    /// Leaves all locations but the outermost `locations`.
    fn leave_to(&mut self, locations: usize) {
        self.ends.truncate(locations);
        let keep = self.ends.last().copied().unwrap_or(0);
        self.path.truncate(keep);
        while let Some(OpenCall { caller, node, is_inlined, before, .. }) =
            self.open.pop_if(|open| open.depth >= keep)
        {
            let new = CandidateCall { weight: 0, is_inlined: true };
            let call = self.known.entry((caller, node)).or_insert(new);
            call.weight = call.weight.saturating_add(self.sum.wrapping_sub(before));
            call.is_inlined &= is_inlined;
        }
    }

    /// Returns for each node whether it was called inlined, and whether not.
    fn ways(&self, nodes: usize, cutoff: i64) -> Vec<(bool, bool)> {
        let mut ways = vec![(false, false); nodes];
        for ((_, node), call) in &self.known {
            if call.weight.saturating_abs() >= cutoff {
                let way = &mut ways[*node as usize];
                if call.is_inlined { way.0 = true } else { way.1 = true }
            }
        }
        ways
    }
}
