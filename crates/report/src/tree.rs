//! `tree` and `peek`: functions with their callers and callees.

use regex::Regex;
use serde::Serialize;

use crate::graph::{self, Graph};
use crate::report::{Extent, Measure, Report};

/// A caller or callee of an entry.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The name of the caller or callee.
    pub name: String,
    /// The cost of the calls.
    pub weight: i64,
    /// Whether the callee was inlined into the caller.
    pub inlined: bool,
}

/// A function with its callers and callees.
#[derive(Clone, Debug, Serialize)]
pub struct TreeEntry {
    /// The function.
    pub name: String,
    /// Its own cost.
    pub flat: i64,
    /// Its cost, including everything it called.
    pub cum: i64,
    /// Its callers, heaviest first.
    pub callers: Vec<Call>,
    /// Its callees, heaviest first.
    pub callees: Vec<Call>,
}

/// The answer of `tree` and `peek`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The functions.
    pub entries: Vec<TreeEntry>,
    /// Which part of the profile is shown by the graph from which the entries were selected.
    #[serde(skip)]
    pub(crate) extent: Extent,
    /// The unit in which all values of that graph are legible.
    #[serde(skip)]
    pub(crate) output_unit: String,
}

/// Computes `tree`, or `peek` for the functions that match `wanted`.
pub fn tree(report: &Report, wanted: Option<&Regex>) -> Tree {
    let trimmed = graph::trimmed(report);
    let graph = &trimmed.graph;
    let output_unit = graph.output_unit(report);
    let extent = Extent { dropped_edges: None, ..trimmed.extent() };
    let profile = &report.profile;
    let mut entries: Vec<TreeEntry> = graph
        .shown()
        .iter()
        .map(|node| (node, node.info.printable(profile)))
        .filter(|(_, name)| wanted.is_none_or(|wanted| wanted.is_match(name)))
        .map(|(node, name)| TreeEntry {
            name,
            flat: node.flat_value(),
            cum: node.cum_value(),
            callers: calls(report, graph, &node.incoming, true),
            callees: calls(report, graph, &node.outgoing, false),
        })
        .collect();
    if report.options.reverse {
        entries.reverse();
    }
    Tree { measure: report.measure(), entries, extent, output_unit }
}

fn calls(report: &Report, graph: &Graph, edges: &[usize], of_callers: bool) -> Vec<Call> {
    let sorted = graph.sorted_edges(edges, &report.profile).into_iter();
    sorted
        .map(|row| {
            let edge = &graph.edges[row];
            let other = if of_callers { edge.caller } else { edge.callee };
            let name = graph.nodes[other].info.printable(&report.profile);
            Call { name, weight: edge.weight.sum, inlined: edge.is_inlined }
        })
        .collect()
}
