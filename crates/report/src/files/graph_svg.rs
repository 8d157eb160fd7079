//! The call graph as an SVG image, laid out without Graphviz.

use std::fmt::Write;

use flamelet_profile::{FunctionId, StringId, unit};
use flamelet_symbol::owner::Owner;
use rustc_hash::FxHashMap;

use super::dot::heat;
use crate::flame::{PATTERNS, hue_of, legend, paint};
use crate::graph::layers::{BoxCall, Gaps, Placed, Size, place};
use crate::graph::{self, Edge, GraphNode};
use crate::names::{crate_of, folded_owner, package_name, without_arguments};
use crate::report::Report;
use crate::stacks::base_label_sets;
use crate::xml::escaped;

/// Returns the call graph as an SVG image: callers above, callees below. The fill of a box says whose code it is, and
/// the costlier a function, the warmer the line around its box; in a difference, the fill says how much changed.
pub fn svg(report: &Report) -> String {
    let graph = graph::trimmed(report).graph;
    let output_unit = graph.output_unit(report);
    let fills = Fills::of(report);
    let label = |node: &GraphNode| Label::of(report, node, &output_unit, &fills);
    let boxes: Vec<Label> = graph.shown().iter().map(label).collect();
    let sizes: Vec<Size> = boxes.iter().map(Label::size).collect();
    let is_shown = |edge: &&Edge| edge.caller < graph.shown && edge.callee < graph.shown;
    let edges: Vec<&Edge> = graph.edges.iter().filter(is_shown).collect();
    let call = |edge: &&Edge| {
        let weight = edge.value().unsigned_abs().max(1) as f64;
        BoxCall { caller: edge.caller, callee: edge.callee, weight }
    };
    let calls: Vec<BoxCall> = edges.iter().map(call).collect();
    let placed = place(&sizes, &calls, GAPS);
    let drawing = SvgWriter { report, labels: &boxes, output_unit: &output_unit, svg: String::new() };
    drawing.draw(&edges, &placed)
}

/// The text of a box.
struct Label {
    lines: Vec<String>,
    title: String,
    cum: i64,
    /// What its box is filled with; `None` for a difference.
    fill: Option<&'static str>,
    is_yours: bool,
}

const LINE_HEIGHT: f64 = 15.0;
const CHARACTER_WIDTH: f64 = 7.3;
const PADDING: f64 = 8.0;
const MARGIN: f64 = 24.0;
/// The gap between layers leaves room for the cost of the calls.
const GAPS: Gaps = Gaps { boxes: 24.0, layers: 56.0 };
/// Longer names are shortened in the box, and shown in full in its tooltip.
const LONGEST_NAME: usize = 48;

impl Label {
    fn of(report: &Report, node: &GraphNode, output_unit: &str, fills: &Fills) -> Self {
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
        let title = format!("{name}\nflat {}\ncum {}", value(flat), value(cum));
        let (hue, is_yours) = fills.of_name(report, node.info.name);
        Self { lines, title, cum, fill: (!fills.is_diff).then(|| paint(hue)), is_yours }
    }

    fn size(&self) -> Size {
        let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        Size {
            width: longest as f64 * CHARACTER_WIDTH + 2.0 * PADDING,
            height: self.lines.len() as f64 * LINE_HEIGHT + 2.0 * PADDING - 4.0,
        }
    }
}

/// The hue of each function, and whether it is yours.
struct Fills {
    by_name: FxHashMap<StringId, (u32, bool)>,
    /// The hues of the owners of folded frames, by their names.
    by_owner: FxHashMap<String, u32>,
    is_diff: bool,
}

impl Fills {
    fn of(report: &Report) -> Self {
        let profile = &report.profile;
        let (mut by_name, mut by_owner) = (FxHashMap::default(), FxHashMap::default());
        if let Some(owners) = &report.owners {
            for (index, function) in profile.functions().iter().enumerate() {
                let owner = owners.of_function(FunctionId::from_index(index));
                let hue = hue_of(owner, crate_of(profile.string(function.name)));
                by_name.entry(function.name).or_insert((hue, owner.is_yours()));
                if !owner.is_yours() {
                    by_owner.entry(package_name(owner).to_owned()).or_insert(hue);
                }
            }
        }
        Self { by_name, by_owner, is_diff: base_label_sets(profile).contains(&true) }
    }

    fn of_name(&self, report: &Report, name: StringId) -> (u32, bool) {
        let text = report.profile.string(name);
        match folded_owner(text).and_then(|owner| self.by_owner.get(owner)) {
            Some(&hue) => (hue, false),
            None => {
                let unknown = || (hue_of(&Owner::Unknown, crate_of(text)), false);
                self.by_name.get(&name).copied().unwrap_or_else(unknown)
            }
        }
    }
}

/// Shortens a name; the end of a long name says more than its start. The arguments of a C++ function go first.
fn shortened(name: &str) -> String {
    let is_short = |name: &str| name.chars().count() <= LONGEST_NAME;
    if is_short(name) {
        return name.to_string();
    }
    let name = without_arguments(name);
    let length = name.chars().count();
    if is_short(name) {
        return name.to_string();
    }
    let end: String = name.chars().skip(length - LONGEST_NAME + 1).collect();
    format!("…{end}")
}

struct SvgWriter<'a> {
    report: &'a Report,
    labels: &'a [Label],
    output_unit: &'a str,
    svg: String,
}

impl SvgWriter<'_> {
    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.svg.write_fmt(text);
    }

    fn heat(&self, value: i64, is_background: bool) -> String {
        heat(self.share(value), is_background)
    }

    fn share(&self, value: i64) -> f64 {
        value as f64 / self.report.total.saturating_abs().max(1) as f64
    }

    fn draw(mut self, edges: &[&Edge], placed: &Placed) -> String {
        let (width, height) = (placed.width + 2.0 * MARGIN, placed.height + 2.0 * MARGIN);
        let is_diff = self.labels.iter().all(|label| label.fill.is_none());
        let legend = if is_diff { String::new() } else { legend(MARGIN, height as u32 + 6) };
        let (width, height) = (width.max(if is_diff { 0.0 } else { 760.0 }), height + 22.0);
        self.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"ui-monospace, monospace\" font-size=\"12\">\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerUnits=\"userSpaceOnUse\" markerWidth=\"9\" markerHeight=\"9\" \
             orient=\"auto-start-reverse\"><path d=\"M0 0 8 4 0 8z\" fill=\"#777\"/></marker></defs>\n\
             {PATTERNS}<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{legend}<g transform=\"translate({MARGIN} {MARGIN})\">\n"
        ));
        std::iter::zip(edges, &placed.paths).for_each(|(edge, points)| self.draw_edge(edge, points));
        std::iter::zip(self.labels, &placed.boxes).for_each(|(label, &middle)| self.draw_box(label, middle));
        self.push(format_args!("</g>\n</svg>\n"));
        self.svg
    }

    fn draw_edge(&mut self, edge: &Edge, points: &[(f64, f64)]) {
        let value = edge.value();
        let thickness = 1.0 + 5.0 * self.share(value).abs().min(1.0);
        let dashes = if edge.is_residual { " stroke-dasharray=\"4 3\"" } else { "" };
        let weight = self.report.format(value, self.output_unit);
        let arrow = if edge.is_residual { "…" } else { "→" };
        let (caller, callee) = (self.labels[edge.caller].name(), self.labels[edge.callee].name());
        let title = escaped(&format!("{caller} {arrow} {callee} ({weight})"));
        let colour = self.heat(value, false);
        self.push(format_args!(
            "<g><title>{title}</title><path d=\"{}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"{thickness:.1}\" marker-end=\"url(#tip)\"{dashes}/>",
            curve(points),
        ));
        let (x, y) = match points {
            [from, to] => ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0),
            _ => points[points.len() / 2],
        };
        self.push(format_args!(
            "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"#555\" font-size=\"10\" text-anchor=\"middle\" \
             stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text></g>\n",
            escaped(&weight)
        ));
    }

    fn draw_box(&mut self, label: &Label, (x, y): (f64, f64)) {
        let size = label.size();
        let (left, top) = (x - size.width / 2.0, y - size.height / 2.0);
        let line = self.heat(label.cum, false);
        let fill = label.fill.map_or_else(|| self.heat(label.cum, true), str::to_owned);
        let weight = 1.0 + 2.0 * self.share(label.cum).abs().min(1.0);
        self.push(format_args!(
            "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
             fill=\"{fill}\" stroke=\"{line}\" stroke-width=\"{weight:.1}\"/>",
            escaped(&label.title),
            size.width,
            size.height,
        ));
        for (row, line) in label.lines.iter().enumerate() {
            let baseline = top + PADDING + 9.0 + row as f64 * LINE_HEIGHT;
            self.push(format_args!(
                "<text x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\"{}>{}</text>",
                if label.is_yours && row == 0 { " font-weight=\"700\"" } else { "" },
                escaped(line)
            ));
        }
        self.push(format_args!("</g>\n"));
    }
}

impl Label {
    fn name(&self) -> &str {
        self.title.lines().next().unwrap_or_default()
    }
}

/// Returns a line through the points that leaves and enters vertically.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments_before_their_start() {
        let long =
            "shop::Cart::total(std::__cxx11::basic_string<char, std::char_traits<char>>, int (*)(int)) const";
        assert_eq!(shortened(long), "shop::Cart::total");
        assert_eq!(shortened("shop::Cart::total(int)"), "shop::Cart::total(int)");
        assert_eq!(without_arguments("F::operator()(int)"), "F::operator()");
        assert_eq!(without_arguments("F::operator()"), "F::operator()");
        assert_eq!(without_arguments("main.(*Cart).Add"), "main.(*Cart).Add");
        assert_eq!(without_arguments(")"), ")");
        let rust = format!("<alloc::vec::Vec<{}> as core::ops::drop::Drop>::drop", "T".repeat(60));
        assert!(shortened(&rust).starts_with('…') && shortened(&rust).ends_with("Drop>::drop"));
    }
}
