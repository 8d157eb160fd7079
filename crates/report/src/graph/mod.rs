//! The call graph of a profile: nodes with their cost, edges with the cost that flows over them, trimmed to what
//! matters. Trimming follows `go tool pprof`, so that both show the same functions.

#[cfg(feature = "text")]
mod answer;
mod flow;
pub(crate) mod layers;
#[cfg(feature = "text")]
mod linked;
#[cfg(feature = "text")]
mod tags;
#[cfg(feature = "text")]
mod trim;

#[cfg(feature = "text")]
pub use answer::{CallGraph, CallGraphEdge, CallGraphNode, graph};
pub(crate) use flow::{Flow, FlowGraph, GraphPlan, build};
#[cfg(feature = "text")]
pub(crate) use linked::{Edge, Graph, GraphNode, is_negative};
#[cfg(feature = "text")]
pub(crate) use tags::{Tag, join as join_tags, sort as sort_tags};
#[cfg(feature = "text")]
pub(crate) use trim::{Cutoffs, trimmed};
