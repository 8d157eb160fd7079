//! `graph`: the call graph as a picture, laid out here, without Graphviz.

mod layers;
mod svg;

use crate::graph;
use crate::report::Report;

/// The call graph as an SVG image: callers above, callees below; a box is as warm as its function is costly.
pub fn svg(report: &Report) -> String {
    let graph = graph::trimmed(report).graph;
    let values = graph.shown().iter().map(|node| (node.flat_value(), node.cum_value()));
    let output_unit = report.output_unit(values);
    let boxes: Vec<svg::Label> =
        graph.shown().iter().map(|node| svg::Label::of(report, node, &output_unit)).collect();
    let sizes: Vec<layers::Size> = boxes.iter().map(svg::Label::size).collect();
    let is_shown = |edge: &&graph::Edge| edge.caller < graph.shown && edge.callee < graph.shown;
    let edges: Vec<&graph::Edge> = graph.edges.iter().filter(is_shown).collect();
    let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.caller, edge.callee)).collect();
    let placed = layers::place(&sizes, &ends);
    svg::draw(report, &boxes, &edges, &placed, &output_unit)
}
