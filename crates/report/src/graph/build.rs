//! Building the graph from the samples.

use rustc_hash::FxHashMap;

use super::tags::NodeTags;
use crate::node::{NodeId, NodeInfo, Nodes};
use crate::report::Report;

/// A node with its cost and its edges, given as rows of [`Graph::edges`].
#[derive(Clone, Debug, Default)]
pub struct GraphNode {
    /// What it is.
    pub info: NodeInfo,
    /// What it cost itself.
    pub flat: i64,
    /// What it and all it called cost.
    pub cum: i64,
    pub(crate) flat_divisor: i64,
    pub(crate) cum_divisor: i64,
    /// The calls to it.
    pub incoming: Vec<usize>,
    /// The calls it made.
    pub outgoing: Vec<usize>,
    pub(crate) tags: NodeTags,
}

impl GraphNode {
    /// Its own cost, as a mean where one was asked for.
    pub fn flat_value(&self) -> i64 {
        if self.flat_divisor == 0 { self.flat } else { self.flat / self.flat_divisor }
    }

    /// Its whole cost, as a mean where one was asked for.
    pub fn cum_value(&self) -> i64 {
        if self.cum_divisor == 0 { self.cum } else { self.cum / self.cum_divisor }
    }
}

/// What flows from a caller to a callee.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The caller's row in [`Graph::nodes`].
    pub caller: usize,
    /// The callee's row in [`Graph::nodes`].
    pub callee: usize,
    /// The cost of the calls.
    pub weight: i64,
    pub(crate) divisor: i64,
    /// Nodes that are not shown lie between the two.
    pub is_residual: bool,
    /// The callee was inlined into the caller.
    pub is_inlined: bool,
    seen: u32,
}

impl Edge {
    /// The cost of the calls, as a mean where one was asked for.
    pub fn value(&self) -> i64 {
        if self.divisor == 0 { self.weight } else { self.weight / self.divisor }
    }
}

/// Nodes and edges.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes: first those that are shown, sorted as the report asked; then those that came to nothing and
    /// are only seen as callers and callees.
    pub nodes: Vec<GraphNode>,
    /// How many of the nodes are shown.
    pub shown: usize,
    /// The edges; nodes refer to them by row.
    pub edges: Vec<Edge>,
}

/// Which nodes a graph is to have, and how.
pub(super) struct Plan<'a> {
    pub(super) nodes: &'a Nodes,
    /// The nodes to keep; `None` for all.
    pub(super) kept: Option<&'a [bool]>,
    pub(super) with_tags: bool,
    /// One node for each way to reach a function, instead of one for the function.
    pub(super) as_tree: bool,
}

/// Makes graph nodes on demand: one a node of the profile, or one a way to reach it.
struct Interner {
    as_tree: bool,
    known: FxHashMap<(usize, NodeId), usize>,
    direct: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Interner {
    fn new(plan: &Plan<'_>) -> Self {
        let direct = if plan.as_tree { Vec::new() } else { vec![NONE; plan.nodes.len()] };
        Self { as_tree: plan.as_tree, known: FxHashMap::default(), direct }
    }

    fn row(&mut self, parent: usize, node: NodeId, plan: &Plan<'_>, graph: &mut Graph) -> usize {
        let slot = if self.as_tree {
            self.known.entry((parent, node)).or_insert(NONE)
        } else {
            &mut self.direct[node as usize]
        };
        if *slot == NONE {
            *slot = graph.nodes.len();
            graph.nodes.push(GraphNode { info: plan.nodes.infos[node as usize], ..GraphNode::default() });
        }
        *slot
    }
}

impl Graph {
    pub(super) fn build(report: &Report, plan: &Plan<'_>) -> Self {
        let profile = &report.profile;
        let mut graph = Self::default();
        let mut interner = Interner::new(plan);
        let mut edges: FxHashMap<(usize, usize), usize> = FxHashMap::default();
        let mut seen: Vec<u32> = Vec::new();
        let tag_names = plan.with_tags.then(|| super::tags::TagNames::of(report));
        for (stamp, sample) in (1u32..).zip(profile.samples()) {
            let (value, divisor) = (report.value(&sample), report.divisor(&sample));
            if value == 0 && divisor == 0 {
                continue;
            }
            let mut parent = NONE;
            let mut is_residual = false;
            for &location in profile.stack(sample.stack).iter().rev() {
                let frames = plan.nodes.at(location);
                for (at, &node) in frames.iter().enumerate().rev() {
                    if plan.kept.is_some_and(|kept| !kept[node as usize]) {
                        is_residual = true;
                        continue;
                    }
                    let row = interner.row(parent, node, plan, &mut graph);
                    seen.resize(graph.nodes.len(), 0);
                    if seen[row] != stamp {
                        seen[row] = stamp;
                        let node = &mut graph.nodes[row];
                        node.cum = node.cum.saturating_add(value);
                        node.cum_divisor += divisor;
                        if let Some(names) = &tag_names {
                            node.tags.add(names, &sample, value, divisor, false);
                        }
                    }
                    if parent != NONE && parent != row {
                        let edge = *edges.entry((parent, row)).or_insert_with(|| {
                            graph.edges.push(Edge {
                                caller: parent,
                                callee: row,
                                weight: 0,
                                divisor: 0,
                                is_residual: false,
                                is_inlined: true,
                                seen: 0,
                            });
                            graph.edges.len() - 1
                        });
                        let edge = &mut graph.edges[edge];
                        if edge.seen != stamp {
                            edge.seen = stamp;
                            edge.weight = edge.weight.saturating_add(value);
                            edge.divisor += divisor;
                            edge.is_residual |= is_residual;
                            edge.is_inlined &= at + 1 != frames.len();
                        }
                    }
                    (parent, is_residual) = (row, false);
                }
            }
            if parent != NONE && !is_residual {
                let leaf = &mut graph.nodes[parent];
                leaf.flat = leaf.flat.saturating_add(value);
                leaf.flat_divisor += divisor;
                if let Some(names) = &tag_names {
                    leaf.tags.add(names, &sample, value, divisor, true);
                }
            }
        }
        graph.hide_empty_nodes(report.options.drop_negative);
        graph
    }

    /// The nodes to show.
    pub fn shown(&self) -> &[GraphNode] {
        &self.nodes[..self.shown]
    }

    /// Nodes whose samples cancel each other out are not listed; calls from and to them are.
    fn hide_empty_nodes(&mut self, drop_negative: bool) {
        let is_hidden = |node: &GraphNode| {
            let is_empty = node.flat == 0 && node.cum == 0;
            is_empty || (drop_negative && super::weights::is_negative(node.flat, node.cum))
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

    /// Puts the nodes into `order`; nodes that it does not name go, with their edges.
    pub(super) fn reorder(&mut self, order: &[usize]) {
        let mut new_rows = vec![NONE; self.nodes.len()];
        for (new, &old) in order.iter().enumerate() {
            new_rows[old] = new;
        }
        self.nodes = order.iter().map(|&old| std::mem::take(&mut self.nodes[old])).collect();
        self.edges.retain_mut(|edge| {
            (edge.caller, edge.callee) = (new_rows[edge.caller], new_rows[edge.callee]);
            edge.caller != NONE && edge.callee != NONE
        });
        self.link();
    }

    /// Makes the nodes' lists of edges anew.
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
}
