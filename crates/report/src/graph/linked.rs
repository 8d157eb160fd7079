//! The graph of a report, whose nodes list their calls; it can be sorted and trimmed.

use flamelet_profile::Profile;

use super::flow::{Flow, FlowGraph, FlowNode};
use super::tags::NodeTags;
use crate::report::{Cost, Report};
use crate::stacks::NodeInfo;

/// The functions of a report and the calls between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// The nodes: first those that are shown, sorted as requested; then hidden ones, which appear only as
    /// callers and callees.
    pub(crate) nodes: Vec<GraphNode>,
    /// How many of the nodes are shown.
    pub(crate) shown: usize,
    /// The edges; nodes refer to them by row.
    pub(crate) edges: Vec<Edge>,
}

/// A function with its cost and its calls, given as rows of [`Graph::edges`].
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphNode {
    /// What it is.
    pub(crate) info: NodeInfo,
    /// Its own cost.
    pub(crate) flat: Cost,
    /// Its cost, including everything it called.
    pub(crate) cum: Cost,
    pub(crate) tags: NodeTags,
    /// The calls to it.
    pub(crate) incoming: Vec<usize>,
    /// The calls it made.
    pub(crate) outgoing: Vec<usize>,
}

/// Calls of a [`Graph`].
pub(crate) type Edge = Flow<Cost>;

impl GraphNode {
    /// Returns its own cost, as a mean if requested.
    pub(crate) fn flat_value(&self) -> i64 {
        self.flat.value()
    }

    /// Returns its cumulative cost, as a mean if requested.
    pub(crate) fn cum_value(&self) -> i64 {
        self.cum.value()
    }
}

impl Edge {
    /// Returns the cost of the calls, as a mean if requested.
    pub(crate) fn value(&self) -> i64 {
        self.weight.value()
    }
}

/// Returns whether a node is one whose cost decreased in a diff.
pub(crate) fn is_negative(flat: i64, cum: i64) -> bool {
    flat < 0 || (flat == 0 && cum < 0)
}

impl Graph {
    /// Returns the unit in which all values of the nodes are legible.
    pub(crate) fn output_unit(&self, report: &Report) -> String {
        report.output_unit(self.shown().iter().map(|node| (node.flat_value(), node.cum_value())))
    }

    /// Returns the nodes to show.
    pub(crate) fn shown(&self) -> &[GraphNode] {
        &self.nodes[..self.shown]
    }

    /// Builds the graph from `flows`. Nodes whose samples cancel out are not shown; calls from and to them are.
    pub(super) fn of(flows: FlowGraph<NodeInfo, Cost>, drop_negative: bool) -> Self {
        let node = |node: FlowNode<NodeInfo, Cost>| {
            let FlowNode { info, flat, cum, tags } = node;
            GraphNode { info, flat, cum, tags, incoming: Vec::new(), outgoing: Vec::new() }
        };
        let nodes = flows.nodes.into_iter().map(node).collect();
        let mut graph = Self { nodes, shown: 0, edges: flows.edges };
        graph.hide_empty_nodes(drop_negative);
        graph
    }

    fn hide_empty_nodes(&mut self, drop_negative: bool) {
        let is_hidden = |node: &GraphNode| {
            let (flat, cum) = (node.flat.sum, node.cum.sum);
            (flat == 0 && cum == 0) || (drop_negative && is_negative(flat, cum))
        };
        let (hidden, shown): (Vec<usize>, Vec<usize>) =
            (0..self.nodes.len()).partition(|&row| is_hidden(&self.nodes[row]));
        self.shown = shown.len();
        let order: Vec<usize> = shown.into_iter().chain(hidden).collect();
        self.reorder(&order);
    }

    /// Keeps the shown nodes for which `keep` is set, and the edges between them.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        let order: Vec<usize> = (0..self.shown).filter(|&row| keep[row]).collect();
        self.shown = order.len();
        self.reorder(&order);
    }

    /// Reorders the nodes; nodes that `order` does not contain are removed with their edges.
    pub(super) fn reorder(&mut self, order: &[usize]) {
        const GONE: usize = usize::MAX;
        let mut new_rows = vec![GONE; self.nodes.len()];
        for (new, &old) in order.iter().enumerate() {
            new_rows[old] = new;
        }
        self.nodes = order.iter().map(|&old| std::mem::take(&mut self.nodes[old])).collect();
        self.edges.retain_mut(|edge| {
            (edge.caller, edge.callee) = (new_rows[edge.caller], new_rows[edge.callee]);
            edge.caller != GONE && edge.callee != GONE
        });
        self.link();
    }

    /// Rebuilds the nodes' lists of edges.
    pub(super) fn link(&mut self) {
        for node in &mut self.nodes {
            node.incoming.clear();
            node.outgoing.clear();
        }
        for (row, edge) in self.edges.iter().enumerate() {
            self.nodes[edge.caller].outgoing.push(row);
            self.nodes[edge.callee].incoming.push(row);
        }
    }

    /// Returns the edges, heaviest first, then by the names at their ends.
    pub(crate) fn sorted_edges(&self, edges: &[usize], profile: &Profile) -> Vec<usize> {
        let mut keyed: Vec<(i64, String, String, usize)> = edges
            .iter()
            .map(|&row| {
                let edge = &self.edges[row];
                let name = |node: usize| self.nodes[node].info.printable(profile);
                (edge.weight.sum, name(edge.caller), name(edge.callee), row)
            })
            .collect();
        keyed.sort_by(|a, b| {
            let sizes = b.0.unsigned_abs().cmp(&a.0.unsigned_abs());
            sizes.then_with(|| a.1.cmp(&b.1)).then_with(|| a.2.cmp(&b.2))
        });
        keyed.into_iter().map(|(.., row)| row).collect()
    }
}
