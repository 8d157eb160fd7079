//! Leaves out what is too small to matter.

use std::collections::VecDeque;

use super::flow::{GraphPlan, build};
use super::linked::{Edge, Graph, GraphNode};
use super::tags::TagNames;
use crate::options::{ReportKind, Sort};
use crate::report::{Extent, Report, sum};
use crate::stacks::Nodes;

/// The values below which nodes and edges are left out.
pub(crate) struct Cutoffs {
    pub(crate) node: i64,
    pub(crate) edge: i64,
}

impl Cutoffs {
    /// Returns the cut-offs for a graph whose nodes cost `total`.
    pub(crate) fn of(report: &Report, total: i64) -> Self {
        let share = |fraction: f64| ((total as f64 * fraction) as i64).saturating_abs();
        Self { node: share(report.options.node_fraction), edge: share(report.options.edge_fraction) }
    }
}

/// A graph, and what was left out of it.
pub(crate) struct Trimmed {
    pub(crate) graph: Graph,
    /// How many nodes there were before their count was limited.
    pub(crate) candidates: usize,
    pub(crate) dropped_nodes: usize,
    pub(crate) dropped_edges: usize,
}

impl Trimmed {
    /// Returns which part of the profile the graph shows.
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            shown: sum(self.graph.shown().iter().map(GraphNode::flat_value)),
            count: self.graph.shown,
            candidates: self.candidates,
            dropped: self.dropped_nodes,
            dropped_edges: Some(self.dropped_edges),
        }
    }
}

/// Builds the graph of a report, trimmed by the report's options. Each step rebuilds the graph from the samples,
/// since the costs of dropped nodes flow over residual edges.
pub(crate) fn trimmed(report: &Report) -> Trimmed {
    let is_drawn = report.command == ReportKind::Dot;
    let by_object = matches!(
        report.command,
        ReportKind::Raw | ReportKind::List | ReportKind::Disasm | ReportKind::Callgrind
    );
    let as_tree =
        report.options.call_tree && matches!(report.command, ReportKind::Dot | ReportKind::Callgrind);
    let nodes = Nodes::of(&report.profile, by_object);
    let tags = is_drawn.then(|| TagNames::of(report));
    Steps { report, nodes, tags, is_drawn, as_tree }.run()
}

/// How many label boxes a drawn node may have.
pub(crate) const MAX_NODELETS: usize = 4;

struct Steps<'a> {
    report: &'a Report,
    nodes: Nodes,
    tags: Option<TagNames>,
    is_drawn: bool,
    as_tree: bool,
}

impl Steps<'_> {
    fn run(&self) -> Trimmed {
        let mut graph = self.build(None);
        let cutoffs = Cutoffs::of(self.report, sum(graph.shown().iter().map(|node| node.flat.sum)));
        let all = graph.shown;
        if cutoffs.node > 0 {
            graph = self.keep(graph, |node| node.cum.sum.saturating_abs() >= cutoffs.node);
        }
        let candidates = graph.shown;
        self.sort(&mut graph);
        let limit = self.report.options.node_count.unwrap_or(0);
        if limit > 0 {
            trim_tags(&mut graph, cutoffs.node);
            trim_edges(&mut graph, cutoffs.edge);
            let limit = if self.is_drawn { drawn_limit(&graph, limit) } else { limit };
            if limit < graph.shown {
                let mut at = 0;
                graph = self.keep(graph, |_| {
                    at += 1;
                    at <= limit
                });
                self.sort(&mut graph);
            }
        }
        trim_tags(&mut graph, cutoffs.node);
        let dropped_edges = trim_edges(&mut graph, cutoffs.edge);
        if self.is_drawn {
            remove_redundant_edges(&mut graph, self.report);
        }
        Trimmed { graph, candidates, dropped_nodes: all - candidates, dropped_edges }
    }

    fn build(&self, kept: Option<&[bool]>) -> Graph {
        let plan = GraphPlan {
            profile: &self.report.profile,
            table: &self.nodes.table,
            count: self.nodes.len(),
            kept,
            chains: None,
            as_tree: self.as_tree,
            with_recursion: false,
            tags: self.tags.as_ref(),
        };
        let stacks = self.report.weighed().map(|(sample, cost)| (sample.stack, sample.labels, cost));
        let flows = build(&plan, stacks, |node| self.nodes.infos[node as usize]);
        Graph::of(flows, self.report.options.drop_negative)
    }

    /// Returns the graph with only the nodes that `is_wanted` accepts, in the same order.
    fn keep(&self, graph: Graph, mut is_wanted: impl FnMut(&GraphNode) -> bool) -> Graph {
        let wanted: Vec<bool> = graph.shown().iter().map(&mut is_wanted).collect();
        if wanted.iter().all(|&wanted| wanted) {
            return graph;
        }
        if self.as_tree {
            return trim_tree(graph, &wanted);
        }
        let known: rustc_hash::FxHashMap<_, usize> =
            self.nodes.infos.iter().enumerate().map(|(row, info)| (*info, row)).collect();
        let mut kept = vec![false; self.nodes.len()];
        let pairs = std::iter::zip(graph.shown(), &wanted).filter(|(_, wanted)| **wanted);
        pairs.for_each(|(node, _)| kept[known[&node.info]] = true);
        self.build(Some(&kept))
    }

    fn sort(&self, graph: &mut Graph) {
        let by_cum = self.report.options.sort == Sort::Cum;
        let profile = &self.report.profile;
        let mut keys: Vec<(u64, String, u64, usize)> = graph
            .shown()
            .iter()
            .enumerate()
            .map(|(row, node)| {
                let (first, second) = match (self.is_drawn, by_cum) {
                    (true, _) => (entropy_score(graph, node), node.flat.sum),
                    (false, true) => (node.cum.sum, node.flat.sum),
                    (false, false) => (node.flat.sum, node.cum.sum),
                };
                (first.unsigned_abs(), node.info.printable(profile), second.unsigned_abs(), row)
            })
            .collect();
        keys.sort_by(|a, b| {
            let infos = || graph.nodes[a.3].info.cmp(&graph.nodes[b.3].info);
            b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)).then(b.2.cmp(&a.2)).then_with(infos)
        });
        let hidden = graph.shown..graph.nodes.len();
        let order: Vec<usize> = keys.into_iter().map(|(.., row)| row).chain(hidden).collect();
        graph.reorder(&order);
    }
}

/// Returns how many nodes to draw so that nodes and their labels add up to about `limit` boxes.
fn drawn_limit(graph: &Graph, limit: usize) -> usize {
    let mut boxes = 0;
    for (row, node) in graph.shown().iter().enumerate() {
        boxes += 1 + node.tags.count().min(MAX_NODELETS);
        if boxes >= limit {
            return row + 1;
        }
    }
    limit
}

/// Connects the children of removed nodes to the nearest ancestors that stay.
fn trim_tree(mut graph: Graph, wanted: &[bool]) -> Graph {
    let is_wanted = |row: usize| wanted.get(row).copied().unwrap_or(false);
    let parent_edge: Vec<Option<usize>> =
        graph.nodes.iter().map(|node| node.incoming.first().copied()).collect();
    let original = graph.edges.clone();
    for edge in &mut graph.edges {
        while !is_wanted(edge.caller) {
            let Some(above) = parent_edge[edge.caller] else { break };
            edge.caller = original[above].caller;
            edge.is_residual = true;
            edge.is_inlined &= original[above].is_inlined;
        }
    }
    graph.retain(wanted);
    graph
}

fn trim_tags(graph: &mut Graph, cutoff: i64) {
    graph.nodes.iter_mut().for_each(|node| node.tags.trim(cutoff));
}

fn trim_edges(graph: &mut Graph, cutoff: i64) -> usize {
    let (before, shown) = (graph.edges.len(), graph.shown);
    graph.edges.retain(|edge| edge.callee >= shown || edge.weight.sum.saturating_abs() >= cutoff);
    graph.link();
    before - graph.edges.len()
}

/// Removes residual edges whose ends are connected in another way, lightest first.
fn remove_redundant_edges(graph: &mut Graph, report: &Report) {
    for row in (0..graph.shown).rev() {
        let incoming = graph.sorted_edges(&graph.nodes[row].incoming, &report.profile);
        for &edge in incoming.iter().rev() {
            if !graph.edges[edge].is_residual {
                break;
            }
            if is_redundant(graph, edge) {
                let Edge { caller, callee, .. } = graph.edges[edge];
                graph.nodes[caller].outgoing.retain(|&other| other != edge);
                graph.nodes[callee].incoming.retain(|&other| other != edge);
            }
        }
    }
    let mut is_linked = vec![false; graph.edges.len()];
    graph.nodes.iter().flat_map(|node| &node.incoming).for_each(|&edge| is_linked[edge] = true);
    let mut row = 0;
    graph.edges.retain(|_| {
        row += 1;
        is_linked[row - 1]
    });
    graph.link();
}

fn is_redundant(graph: &Graph, edge: usize) -> bool {
    let Edge { caller, callee, .. } = graph.edges[edge];
    let mut seen = vec![false; graph.nodes.len()];
    seen[callee] = true;
    let mut queue = VecDeque::from([callee]);
    while let Some(node) = queue.pop_front() {
        for &other in graph.nodes[node].incoming.iter().filter(|&&other| other != edge) {
            let above = graph.edges[other].caller;
            if above == caller {
                return true;
            }
            if !std::mem::replace(&mut seen[above], true) {
                queue.push_back(above);
            }
        }
    }
    false
}

/// Returns how informative a node is: nodes that only pass on what they receive score low.
fn entropy_score(graph: &Graph, node: &GraphNode) -> i64 {
    let entropy = |edges: &[usize], own: i64| {
        if edges.is_empty() {
            return 1.0;
        }
        let weights = edges.iter().map(|&edge| graph.edges[edge].weight.sum);
        let total = own.saturating_add(sum(weights.clone().filter(|&weight| weight > 0)));
        if total == 0 {
            return 0.0;
        }
        let own = (own > 0).then_some(own);
        let shares = weights.chain(own).map(|weight| weight.saturating_abs() as f64 / total as f64);
        shares.filter(|&share| share > 0.0).map(|share| -share * share.log2()).sum()
    };
    let score: f64 = entropy(&node.incoming, 0) + entropy(&node.outgoing, node.flat.sum);
    ((score * node.cum.sum as f64) as i64).saturating_add(node.flat.sum)
}
