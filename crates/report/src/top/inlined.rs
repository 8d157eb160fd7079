//! Whether functions were inlined into their callers.

use std::ops::Range;

use flamelet_profile::{LocationId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::report::Report;
use crate::stacks::{NodeId, Nodes, in_halves};

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
    let mut calls = Calls::default();
    let frames = ShownFrames::of(&report.profile, nodes, &is_shown, &candidates, &mut calls);
    let part = |samples| calls.clone().of(report, &frames, samples);
    let parts = in_halves(report.profile.sample_count(), nodes.len(), part);
    let all = parts.into_iter().fold(Calls::default(), Calls::with);
    let ways = all.ways(nodes.len(), cutoff);
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

/// A call by its row in [`Calls::calls`].
type CallId = u32;

#[derive(Clone, Copy)]
struct ShownFrame {
    node: NodeId,
    /// The node is inlined somewhere, so that its callers matter.
    is_candidate: bool,
    is_inlined: bool,
    /// The call of a candidate, if its caller is at the same location.
    call: Option<CallId>,
}

/// The frames of each location that stand for shown nodes, outermost first.
struct ShownFrames {
    /// Where the frames of each location start; has one element more than there are locations.
    starts: Vec<u32>,
    frames: Vec<ShownFrame>,
}

impl ShownFrames {
    fn of(
        profile: &Profile,
        nodes: &Nodes,
        is_shown: &[bool],
        candidates: &[bool],
        calls: &mut Calls,
    ) -> Self {
        let (mut starts, mut frames) = (vec![0], Vec::new());
        for row in 0..profile.locations().len() {
            let entries = nodes.at(LocationId::from_index(row));
            let mut caller = None;
            for (at, &node) in entries.iter().enumerate().rev().filter(|(_, node)| is_shown[**node as usize])
            {
                let is_candidate = candidates[node as usize];
                let call = caller.filter(|_| is_candidate).map(|caller| calls.row(caller, node));
                frames.push(ShownFrame { node, is_candidate, is_inlined: at + 1 != entries.len(), call });
                caller = Some(node);
            }
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

/// A call from a shown node to a candidate.
#[derive(Clone)]
struct CandidateCall {
    node: NodeId,
    weight: i64,
    /// Whether all calls were inlined; `None` if there was none.
    is_inlined: Option<bool>,
    /// The call is on the current stack. One that recursion repeats counts once.
    is_open: bool,
}

/// A call of the current stack.
#[derive(Clone)]
struct OpenCall {
    call: CallId,
    is_inlined: bool,
    /// How many shown frames are outside it.
    depth: usize,
    /// The weight of all stacks before the first with this call.
    before: i64,
}

/// The calls from shown nodes to candidates.
#[derive(Clone, Default)]
struct Calls {
    calls: Vec<CandidateCall>,
    /// Their rows, by caller and callee.
    rows: FxHashMap<(NodeId, NodeId), CallId>,
    /// The shown nodes of the current stack.
    path: Vec<NodeId>,
    /// Where the nodes of each location end in `path`.
    ends: Vec<usize>,
    open: Vec<OpenCall>,
    /// The weight of all stacks so far. Only differences of it are used, so it may wrap around.
    sum: i64,
}

impl Calls {
    fn row(&mut self, caller: NodeId, node: NodeId) -> CallId {
        *self.rows.entry((caller, node)).or_insert_with(|| {
            self.calls.push(CandidateCall { node, weight: 0, is_inlined: None, is_open: false });
            self.calls.len() as CallId - 1
        })
    }

    /// Counts the calls of some samples.
    fn of(mut self, report: &Report, frames: &ShownFrames, samples: Range<usize>) -> Self {
        let mut last = None;
        for (sample, cost) in report.weighed_in(samples) {
            let stack = report.profile.stack(sample.stack);
            let shared = last.map_or(0, |last| report.profile.shared_outer_frames(sample.stack, last));
            self.leave_to(shared);
            for &location in stack[..stack.len() - shared].iter().rev() {
                self.enter(frames.at(location));
            }
            self.sum = self.sum.wrapping_add(cost.sum);
            last = Some(sample.stack);
        }
        self.leave_to(0);
        self
    }

    /// Adds the calls of other samples.
    fn with(mut self, other: Self) -> Self {
        for ((caller, node), row) in other.rows {
            let (call, more) = (self.row(caller, node), &other.calls[row as usize]);
            let call = &mut self.calls[call as usize];
            call.weight = call.weight.saturating_add(more.weight);
            call.is_inlined = match (call.is_inlined, more.is_inlined) {
                (Some(one), Some(other)) => Some(one && other),
                (one, other) => one.or(other),
            };
        }
        self
    }

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
    fn call(&mut self, ShownFrame { node, is_inlined, call, .. }: ShownFrame) {
        let Some(&caller) = self.path.last().filter(|&&caller| caller != node) else { return };
        let call = call.unwrap_or_else(|| self.row(caller, node));
        if !std::mem::replace(&mut self.calls[call as usize].is_open, true) {
            self.open.push(OpenCall { call, is_inlined, depth: self.path.len(), before: self.sum });
        }
    }

    /// Leaves all locations but the outermost `locations`.
    fn leave_to(&mut self, locations: usize) {
        self.ends.truncate(locations);
        let keep = self.ends.last().copied().unwrap_or(0);
        self.path.truncate(keep);
        while let Some(open) = self.open.pop_if(|open| open.depth >= keep) {
            let call = &mut self.calls[open.call as usize];
            call.is_open = false;
            call.weight = call.weight.saturating_add(self.sum.wrapping_sub(open.before));
            call.is_inlined = Some(call.is_inlined.unwrap_or(true) && open.is_inlined);
        }
    }

    /// Returns for each node whether it was called inlined, and whether not.
    fn ways(&self, nodes: usize, cutoff: i64) -> Vec<(bool, bool)> {
        let mut ways = vec![(false, false); nodes];
        for call in self.calls.iter().filter(|call| call.weight.saturating_abs() >= cutoff) {
            let way = &mut ways[call.node as usize];
            match call.is_inlined {
                Some(true) => way.0 = true,
                Some(false) => way.1 = true,
                None => {}
            }
        }
        ways
    }
}
