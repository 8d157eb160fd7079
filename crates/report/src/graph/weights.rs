//! What each node costs, without the edges: all that `top` needs, even for millions of stacks.

use flamelet_profile::{LocationId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::walk::{self, Frame, Visitor};
use crate::node::{NodeId, Nodes};
use crate::report::Report;

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
    /// What stands behind the function's name.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Partly => " (partial-inline)",
            Self::Yes => " (inline)",
        }
    }
}

/// The cost of every node.
pub(crate) struct Weights {
    /// Of the node itself.
    pub(crate) flat: Vec<i64>,
    /// Of the node and all it calls.
    pub(crate) cum: Vec<i64>,
    flat_divisor: Vec<i64>,
    cum_divisor: Vec<i64>,
}

impl Weights {
    /// Adds up all samples.
    pub(crate) fn of(report: &Report, nodes: &Nodes) -> Self {
        let profile = &report.profile;
        let count = nodes.len();
        let divisors = if report.options.mean { count } else { 0 };
        let mut weights = Self {
            flat: vec![0; count],
            cum: vec![0; count],
            flat_divisor: vec![0; divisors],
            cum_divisor: vec![0; divisors],
        };
        walk::walk(report, nodes, &mut Cumulative(&mut weights));
        for sample in profile.samples() {
            let leaf = profile.stack(sample.stack).first().and_then(|&location| nodes.at(location).first());
            let Some(leaf) = leaf.map(|&leaf| leaf as usize) else { continue };
            weights.flat[leaf] = weights.flat[leaf].saturating_add(report.value(&sample));
            if report.options.mean {
                weights.flat_divisor[leaf] += report.divisor(&sample);
            }
        }
        weights
    }

    /// The nodes that cost anything.
    pub(crate) fn present(&self, drop_negative: bool) -> Vec<NodeId> {
        let is_present = |&node: &NodeId| {
            let (flat, cum) = (self.flat[node as usize], self.cum[node as usize]);
            (flat != 0 || cum != 0) && !(drop_negative && is_negative(flat, cum))
        };
        (0..self.flat.len() as NodeId).filter(is_present).collect()
    }

    /// Turns sums into means, where a mean was asked for.
    pub(crate) fn take_means(&mut self) {
        let divide = |sums: &mut [i64], divisors: &[i64]| {
            let pairs = sums.iter_mut().zip(divisors).filter(|(_, divisor)| **divisor != 0);
            pairs.for_each(|(sum, divisor)| *sum /= divisor);
        };
        divide(&mut self.flat, &self.flat_divisor);
        divide(&mut self.cum, &self.cum_divisor);
    }
}

/// Adds to every node what passed it, recursion counted once.
struct Cumulative<'a>(&'a mut Weights);

impl Visitor for Cumulative<'_> {
    fn leave(&mut self, frame: &Frame) {
        if !frame.is_first {
            return;
        }
        let node = frame.node as usize;
        self.0.cum[node] = self.0.cum[node].saturating_add(frame.weight);
        if let Some(divisor) = self.0.cum_divisor.get_mut(node) {
            *divisor += frame.divisor;
        }
    }
}

/// Whether a node is one that a diff saved.
pub(crate) fn is_negative(flat: i64, cum: i64) -> bool {
    flat < 0 || (flat == 0 && cum < 0)
}

/// Sorts by size, then by name.
pub(crate) fn sort_nodes(
    ids: &mut [NodeId],
    profile: &Profile,
    nodes: &Nodes,
    weights: &Weights,
    by_cum: bool,
) {
    let size = |node: NodeId| {
        let (flat, cum) = (weights.flat[node as usize], weights.cum[node as usize]);
        let (flat, cum) = (flat.unsigned_abs(), cum.unsigned_abs());
        if by_cum { (cum, flat) } else { (flat, cum) }
    };
    let mut names: FxHashMap<NodeId, String> = FxHashMap::default();
    for &node in ids.iter() {
        names.insert(node, nodes.infos[node as usize].printable(profile));
    }
    ids.sort_by(|&a, &b| {
        let ((a_first, a_second), (b_first, b_second)) = (size(a), size(b));
        let order = b_first.cmp(&a_first).then_with(|| names[&a].cmp(&names[&b]));
        order
            .then(b_second.cmp(&a_second))
            .then_with(|| nodes.infos[a as usize].cmp(&nodes.infos[b as usize]))
    });
}

/// For each of the nodes that are shown, whether calls to it were inlined. A call counts when it is worth at
/// least `cutoff` and its caller is shown too; what lies between the two does not matter.
pub(crate) fn inlined(report: &Report, nodes: &Nodes, shown: &[NodeId], cutoff: i64) -> Vec<Inlined> {
    let mut is_shown = vec![false; nodes.len()];
    shown.iter().for_each(|&node| is_shown[node as usize] = true);
    let candidates = ever_inlined(&report.profile, nodes, &is_shown);
    if !candidates.contains(&true) {
        return vec![Inlined::No; shown.len()];
    }
    let mut ways = vec![(false, false); nodes.len()];
    let mut calls = Calls { is_shown: &is_shown, candidates: &candidates, known: FxHashMap::default() };
    walk::walk(report, nodes, &mut calls);
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

/// The shown nodes that are inlined somewhere: the only ones whose callers matter.
fn ever_inlined(profile: &Profile, nodes: &Nodes, is_shown: &[bool]) -> Vec<bool> {
    let mut ever = vec![false; nodes.len()];
    for row in 0..profile.locations().len() {
        if let [inner @ .., _] = nodes.at(LocationId::from_index(row)) {
            inner.iter().for_each(|&node| ever[node as usize] = is_shown[node as usize]);
        }
    }
    ever
}

struct Call {
    weight: i64,
    is_inlined: bool,
}

/// The calls from shown nodes to candidates, by caller and callee.
struct Calls<'a> {
    is_shown: &'a [bool],
    candidates: &'a [bool],
    known: FxHashMap<(NodeId, NodeId), Call>,
}

impl Visitor for Calls<'_> {
    fn enter(&mut self, above: &[Frame], frame: &mut Frame) {
        if !self.candidates[frame.node as usize] {
            return;
        }
        let shown = above.iter().rfind(|other| self.is_shown[other.node as usize]);
        let Some(caller) = shown.map(|other| other.node).filter(|&caller| caller != frame.node) else {
            return;
        };
        let is_same = |other: &Frame| other.node == frame.node && other.caller == caller;
        // A call that recursion repeats counts once.
        if frame.is_first || !above.iter().any(is_same) {
            frame.caller = caller;
        }
    }

    fn leave(&mut self, frame: &Frame) {
        if frame.caller == walk::NOBODY {
            return;
        }
        let new = Call { weight: 0, is_inlined: true };
        let call = self.known.entry((frame.caller, frame.node)).or_insert(new);
        call.weight = call.weight.saturating_add(frame.weight);
        call.is_inlined &= frame.is_inlined;
    }
}
