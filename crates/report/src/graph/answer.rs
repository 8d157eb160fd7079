//! The call graph as data.

use serde::Serialize;

use super::{Edge, trimmed};
use crate::report::{Measure, Report};

/// The graph as data. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct CallGraph {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The functions.
    pub nodes: Vec<CallGraphNode>,
    /// The calls between them.
    pub edges: Vec<CallGraphEdge>,
}

/// A function of a [`CallGraph`].
#[derive(Clone, Debug, Serialize)]
pub struct CallGraphNode {
    /// The function.
    pub name: String,
    /// Its own cost.
    pub flat: i64,
    /// Its cost, including everything it called.
    pub cum: i64,
}

/// Calls of a [`CallGraph`].
#[derive(Clone, Debug, Serialize)]
pub struct CallGraphEdge {
    /// The caller's index in [`CallGraph::nodes`].
    pub caller: usize,
    /// The callee's index in [`CallGraph::nodes`].
    pub callee: usize,
    /// The cost of the calls.
    pub weight: i64,
    /// Functions that are not shown are between the two.
    pub residual: bool,
    /// The callee was inlined into the caller.
    pub inlined: bool,
}

/// Returns the call graph, trimmed as it would be drawn.
pub fn graph(report: &Report) -> CallGraph {
    let graph = trimmed(report).graph;
    let nodes = graph.shown().iter().map(|node| CallGraphNode {
        name: node.info.printable(&report.profile),
        flat: node.flat_value(),
        cum: node.cum_value(),
    });
    let is_shown = |edge: &&Edge| edge.caller < graph.shown && edge.callee < graph.shown;
    let edges = graph.edges.iter().filter(is_shown).map(|edge| CallGraphEdge {
        caller: edge.caller,
        callee: edge.callee,
        weight: edge.value(),
        residual: edge.is_residual,
        inlined: edge.is_inlined,
    });
    CallGraph { measure: report.measure(), nodes: nodes.collect(), edges: edges.collect() }
}
