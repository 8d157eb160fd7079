//! Whether functions were inlined into their callers.

use flamelet_profile::{LocationId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::report::{Cost, Report};
use crate::stacks::walk::{OpenFrame, Visitor, walk};
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
    let mut ways = vec![(false, false); nodes.len()];
    let mut calls =
        Calls { is_shown: &is_shown, candidates: &candidates, known: FxHashMap::default(), open: Vec::new() };
    let stacks = report.weighed().map(|(sample, cost)| (sample.stack, cost));
    walk(&report.profile, &nodes.table, nodes.len(), stacks, &mut calls);
    for ((_, node), call) in calls.known {
        if call.weight.saturating_abs() >= cutoff {
            let way = &mut ways[node as usize];
            if call.is_inlined { way.0 = true } else { way.1 = true }
        }
    }
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

struct CandidateCall {
    weight: i64,
    is_inlined: bool,
}

/// The calls from shown nodes to candidates, by caller and callee.
struct Calls<'a> {
    is_shown: &'a [bool],
    candidates: &'a [bool],
    known: FxHashMap<(NodeId, NodeId), CandidateCall>,
    /// For each open frame its caller, if the call counts, and whether it was inlined.
    open: Vec<(Option<NodeId>, bool)>,
}

impl Calls<'_> {
    /// Returns the shown node that calls `frame`, if the call counts.
    fn caller(&self, above: &[OpenFrame<Cost>], frame: &OpenFrame<Cost>) -> Option<NodeId> {
        if !self.candidates[frame.entry as usize] {
            return None;
        }
        let shown = above.iter().rfind(|other| self.is_shown[other.entry as usize]);
        let caller = shown.map(|other| other.entry).filter(|&caller| caller != frame.entry)?;
        // A call that recursion repeats counts once.
        let mut pairs = std::iter::zip(above, &self.open);
        let is_repeated = !frame.is_first
            && pairs.any(|(other, open)| other.entry == frame.entry && open.0 == Some(caller));
        (!is_repeated).then_some(caller)
    }
}

impl Visitor<Cost> for Calls<'_> {
    fn enter(&mut self, above: &[OpenFrame<Cost>], frame: &OpenFrame<Cost>, is_inlined: bool) {
        self.open.push((self.caller(above, frame), is_inlined));
    }

    fn leave(&mut self, frame: &OpenFrame<Cost>) {
        let Some((Some(caller), is_inlined)) = self.open.pop() else { return };
        let new = CandidateCall { weight: 0, is_inlined: true };
        let call = self.known.entry((caller, frame.entry)).or_insert(new);
        call.weight = call.weight.saturating_add(frame.weight.sum);
        call.is_inlined &= is_inlined;
    }
}
