//! The call graph as an SVG image, laid out here, without Graphviz.

use std::fmt::Write;

use flamelet_profile::unit;

use super::dot::heat;
use crate::graph::layers::{Placed, Size, place};
use crate::graph::{self, Edge, GraphNode};
use crate::report::Report;
use crate::xml::escaped;

/// The call graph as an SVG image: callers above, callees below; a box is as warm as its function is costly.
pub fn svg(report: &Report) -> String {
    let graph = graph::trimmed(report).graph;
    let output_unit = graph.output_unit(report);
    let boxes: Vec<Label> = graph.shown().iter().map(|node| Label::of(report, node, &output_unit)).collect();
    let sizes: Vec<Size> = boxes.iter().map(Label::size).collect();
    let is_shown = |edge: &&Edge| edge.caller < graph.shown && edge.callee < graph.shown;
    let edges: Vec<&Edge> = graph.edges.iter().filter(is_shown).collect();
    let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.caller, edge.callee)).collect();
    let placed = place(&sizes, &ends);
    draw(report, &boxes, &edges, &placed, &output_unit)
}

/// What a box says.
struct Label {
    lines: Vec<String>,
    title: String,
    cum: i64,
}

const LINE_HEIGHT: f64 = 15.0;
const CHARACTER_WIDTH: f64 = 7.3;
const PADDING: f64 = 8.0;
const MARGIN: f64 = 24.0;
/// Longer names are cut in the box, and whole in its tooltip.
const LONGEST_NAME: usize = 48;

impl Label {
    fn of(report: &Report, node: &GraphNode, output_unit: &str) -> Self {
        let (flat, cum) = (node.flat_value(), node.cum_value());
        let value = |value: i64| {
            let share = unit::percentage(value, report.total);
            format!("{} ({})", report.format(value, output_unit), share.trim())
        };
        let name = node.info.printable(&report.profile);
        let mut lines = vec![shortened(&name)];
        lines.push(if flat == 0 { format!("of {}", value(cum)) } else { value(flat) });
        if flat != 0 && cum != flat {
            lines.push(format!("of {}", value(cum)));
        }
        let title = format!("{name}\nown {}\nwith callees {}", value(flat), value(cum));
        Self { lines, title, cum }
    }

    fn size(&self) -> Size {
        let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        Size {
            width: longest as f64 * CHARACTER_WIDTH + 2.0 * PADDING,
            height: self.lines.len() as f64 * LINE_HEIGHT + 2.0 * PADDING - 4.0,
        }
    }
}

/// The end of a long name says more than its start.
fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= LONGEST_NAME {
        return name.to_string();
    }
    let end: String = name.chars().skip(length - LONGEST_NAME + 1).collect();
    format!("…{end}")
}

fn draw(report: &Report, labels: &[Label], edges: &[&Edge], placed: &Placed, output_unit: &str) -> String {
    let (width, height) = (placed.width + 2.0 * MARGIN, placed.height + 2.0 * MARGIN);
    let mut svg = String::new();
    let mut push = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = svg.write_fmt(text);
    };
    push(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"ui-monospace, monospace\" font-size=\"12\">\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerUnits=\"userSpaceOnUse\" markerWidth=\"9\" markerHeight=\"9\" \
         orient=\"auto-start-reverse\"><path d=\"M0 0 8 4 0 8z\" fill=\"#777\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<g transform=\"translate({MARGIN} {MARGIN})\">\n"
    ));
    let share = |value: i64| value as f64 / report.total.saturating_abs().max(1) as f64;
    for (edge, points) in std::iter::zip(edges, &placed.paths) {
        let value = edge.value();
        let thickness = 1.0 + 5.0 * share(value).abs().min(1.0);
        let dashes = if edge.is_residual { " stroke-dasharray=\"4 3\"" } else { "" };
        let weight = report.format(value, output_unit);
        let arrow = if edge.is_residual { "…" } else { "→" };
        let names = format!("{} {arrow} {}", labels[edge.caller].name(), labels[edge.callee].name());
        push(format_args!(
            "<g><title>{}</title><path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{thickness:.1}\" \
             marker-end=\"url(#tip)\"{dashes}/>",
            escaped(&format!("{names} ({weight})")),
            curve(points),
            heat(share(value), false)
        ));
        let (x, y) = points[points.len() / 2];
        let y = if points.len() == 2 { (points[0].1 + points[1].1) / 2.0 } else { y };
        let x = if points.len() == 2 { (points[0].0 + points[1].0) / 2.0 } else { x };
        push(format_args!(
            "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"#555\" font-size=\"10\" text-anchor=\"middle\" \
             stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text></g>\n",
            escaped(&weight)
        ));
    }
    for (label, &(x, y)) in std::iter::zip(labels, &placed.boxes) {
        let size = label.size();
        let (left, top) = (x - size.width / 2.0, y - size.height / 2.0);
        push(format_args!(
            "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
             fill=\"{}\" stroke=\"{}\"/>",
            escaped(&label.title),
            size.width,
            size.height,
            heat(share(label.cum), true),
            heat(share(label.cum), false)
        ));
        for (row, line) in label.lines.iter().enumerate() {
            let baseline = top + PADDING + 9.0 + row as f64 * LINE_HEIGHT;
            push(format_args!(
                "<text x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\">{}</text>",
                escaped(line)
            ));
        }
        push(format_args!("</g>\n"));
    }
    push(format_args!("</g>\n</svg>\n"));
    svg
}

impl Label {
    fn name(&self) -> &str {
        self.title.lines().next().unwrap_or_default()
    }
}

/// A line through the points that leaves and enters vertically.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let (x, y) = points[0];
    let _ = write!(path, "M{x:.1} {y:.1}");
    for pair in points.windows(2) {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let middle = (y1 + y2) / 2.0;
        let _ = write!(path, "C{x1:.1} {middle:.1} {x2:.1} {middle:.1} {x2:.1} {y2:.1}");
    }
    path
}
