//! `dot`: the call graph for Graphviz, in the same form as `go tool pprof`'s.

use std::io::{self, Write};
use std::sync::LazyLock;

use flamelet_profile::unit;
use regex::Regex;

use crate::graph::{self, Edge, Graph, GraphNode, Tag};
use crate::names::base_name;
use crate::report::Report;
use crate::stacks::NodeInfo;
use crate::text::heading;

const MAX_NODELETS: usize = 4;

/// Writes the graph.
pub fn write_text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let trimmed = graph::trimmed(report);
    let graph = &trimmed.graph;
    let output_unit = graph.output_unit(report);
    let count = graph.shown;
    let labels = heading(report, &output_unit, &trimmed.extent());
    let mut drawing = DotWriter { report, graph, output_unit: &output_unit, out };
    drawing.legend(&labels)?;
    let largest = graph.shown().iter().map(|node| node.flat_value().unsigned_abs()).max().unwrap_or(0);
    let mut has_nodelets = Vec::with_capacity(count);
    for (row, node) in graph.shown().iter().enumerate() {
        drawing.node(row, node, largest)?;
        has_nodelets.push(drawing.nodelets(row, node)?);
    }
    for (node, has_nodelets) in std::iter::zip(graph.shown(), has_nodelets) {
        let sorted = graph.sorted_edges(&node.outgoing, &report.profile);
        for edge in sorted.into_iter().filter(|&edge| graph.edges[edge].callee < count) {
            drawing.edge(&graph.edges[edge], has_nodelets)?;
        }
    }
    writeln!(drawing.out, "}}")
}

struct DotWriter<'a, W> {
    report: &'a Report,
    graph: &'a Graph,
    output_unit: &'a str,
    out: &'a mut W,
}

impl<W: Write> DotWriter<'_, W> {
    fn format(&self, value: i64) -> String {
        self.report.format(value, self.output_unit)
    }

    fn share(&self, value: i64) -> String {
        unit::percentage(value, self.report.total).trim().to_string()
    }

    fn colour(&self, value: i64, is_background: bool) -> String {
        heat(value as f64 / self.report.total.saturating_abs().max(1) as f64, is_background)
    }

    fn legend(&mut self, labels: &[String]) -> io::Result<()> {
        let profile = &self.report.profile;
        let file = profile.mappings().first().map(|mapping| profile.string(mapping.filename));
        let title = file.map(base_name).filter(|title| !title.is_empty()).unwrap_or("unnamed");
        let title = escape(title);
        writeln!(self.out, "digraph \"{title}\" {{")?;
        writeln!(self.out, "node [style=filled fillcolor=\"#f8f8f8\"]")?;
        let Some(first) = labels.first() else { return Ok(()) };
        let first = escape(first);
        let lines: Vec<String> = labels.iter().map(|line| escape(line)).collect();
        let lines = lines.join("\\l");
        writeln!(
            self.out,
            "subgraph cluster_L {{ \"{first}\" [shape=box fontsize=16 label=\"{lines}\\l\" tooltip=\"{title}\"] }}"
        )
    }

    fn node(&mut self, row: usize, node: &GraphNode, largest: u64) -> io::Result<()> {
        let (flat, cum) = (node.flat_value(), node.cum_value());
        let own = self.format(flat);
        let mut label = multiline_name(&node.info, self.report);
        label += &if flat == 0 { "0".to_string() } else { format!("{own} ({})", self.share(flat)) };
        let whole = if cum == flat { own } else { self.format(cum) };
        if cum != flat {
            label += if flat == 0 { " " } else { "\\n" };
            label += &format!("of {whole} ({})", self.share(cum));
        }
        // Text grows from 8 to 24 points with the square root of a node's own cost.
        let growth = if largest == 0 { 0.0 } else { flat.unsigned_abs() as f64 / largest as f64 };
        let size = 8 + (16.0 * growth.sqrt()).ceil() as u32;
        let name = escape(&node.info.printable(&self.report.profile));
        let (line, fill) = (self.colour(cum, false), self.colour(cum, true));
        writeln!(
            self.out,
            "N{id} [label=\"{label}\" id=\"node{id}\" fontsize={size} shape=box tooltip=\"{name} ({whole})\" \
             color=\"{line}\" fillcolor=\"{fill}\"]",
            id = row + 1
        )
    }

    /// Writes the labels of a node, as boxes next to it. Returns whether there were any.
    fn nodelets(&mut self, row: usize, node: &GraphNode) -> io::Result<bool> {
        // A leaf's callees may have been trimmed, so its labels count with everything below it.
        let by_flat = !node.outgoing.is_empty();
        let value = |tag: &Tag| if by_flat { tag.flat.value() } else { tag.cum.value() };
        let mut texts: Vec<Tag> = node.tags.texts.values().cloned().collect();
        graph::sort_tags(&mut texts, by_flat);
        texts.truncate(MAX_NODELETS);
        let mut has_any = false;
        for (at, tag) in texts.iter().enumerate().filter(|(_, tag)| value(tag) != 0) {
            let id = format!("N{}_{at}", row + 1);
            self.nodelet(&format!("N{}", row + 1), &id, &tag.name, value(tag), "")?;
            has_any = true;
            if let Some(numbers) = node.tags.numbers.get(&tag.name) {
                self.numbers(numbers.values(), &id, by_flat)?;
            }
        }
        if let Some(numbers) = node.tags.numbers.get("") {
            has_any |= self.numbers(numbers.values(), &format!("N{}", row + 1), by_flat)?;
        }
        Ok(has_any)
    }

    fn numbers<'t>(
        &mut self,
        tags: impl Iterator<Item = &'t Tag>,
        source: &str,
        by_flat: bool,
    ) -> io::Result<bool> {
        let mut has_any = false;
        for (at, tag) in collapse(tags.cloned().collect(), by_flat).iter().enumerate() {
            let is_own = by_flat || tag.flat.value() == tag.cum.value();
            let (value, style) =
                if is_own { (tag.flat.value(), "") } else { (tag.cum.value(), " style=\"dotted\"") };
            if value != 0 {
                self.nodelet(source, &format!("N{source}_{at}"), &tag.name, value, style)?;
                has_any = true;
            }
        }
        Ok(has_any)
    }

    fn nodelet(&mut self, source: &str, id: &str, name: &str, value: i64, style: &str) -> io::Result<()> {
        let (name, weight) = (escape(name).replace("\\\\n", "\\n"), self.format(value));
        writeln!(
            self.out,
            "{id} [label = \"{name}\" id=\"{id}\" fontsize=8 shape=box3d tooltip=\"{weight}\"]\n\
             {source} -> {id} [label=\" {weight}\" weight=100 tooltip=\"{weight}\" labeltooltip=\"{weight}\"{style}]"
        )
    }

    fn edge(&mut self, edge: &Edge, has_nodelets: bool) -> io::Result<()> {
        let value = edge.value();
        let weight = self.format(value);
        let mark = if edge.is_inlined { "\\n (inline)" } else { "" };
        let mut attributes = format!("label=\" {weight}{mark}\"");
        let total = self.report.total;
        if total != 0 {
            let scaled = |factor: i64| 1 + (value.saturating_mul(factor) / total).abs().min(factor);
            if scaled(100) > 1 {
                attributes += &format!(" weight={}", scaled(100));
            }
            if scaled(5) > 1 {
                attributes += &format!(" penwidth={}", scaled(5));
            }
            attributes += &format!(" color=\"{}\"", self.colour(value, false));
        }
        let name = |row: usize| escape(&self.graph.nodes[row].info.printable(&self.report.profile));
        let arrow = if edge.is_residual { "..." } else { "->" };
        let tooltip = format!("\"{} {arrow} {} ({weight})\"", name(edge.caller), name(edge.callee));
        attributes += &format!(" tooltip={tooltip} labeltooltip={tooltip}");
        if edge.is_residual {
            attributes += " style=\"dotted\"";
        }
        if has_nodelets {
            attributes += " minlen=2";
        }
        writeln!(self.out, "N{} -> N{} [{attributes}]", edge.caller + 1, edge.callee + 1)
    }
}

/// Merges numbers into at most four ranges around the heaviest of them.
fn collapse(mut tags: Vec<Tag>, by_flat: bool) -> Vec<Tag> {
    graph::sort_tags(&mut tags, by_flat);
    if tags.len() <= MAX_NODELETS {
        return tags;
    }
    let rest = tags.split_off(MAX_NODELETS);
    let mut groups: Vec<Vec<Tag>> = tags.into_iter().map(|tag| vec![tag]).collect();
    for tag in rest {
        let distance = |group: &Vec<Tag>| {
            let (middle, _) = unit::scale(group[0].number, &group[0].unit, &tag.unit);
            (middle - tag.number as f64).abs()
        };
        let nearest =
            (0..groups.len()).min_by(|&a, &b| distance(&groups[a]).total_cmp(&distance(&groups[b])));
        groups[nearest.unwrap_or(0)].push(tag);
    }
    let mut joined: Vec<Tag> = groups.into_iter().map(|group| graph::join_tags(&group)).collect();
    graph::sort_tags(&mut joined, by_flat);
    joined
}

fn multiline_name(info: &NodeInfo, report: &Report) -> String {
    let profile = &report.profile;
    let mut parts = info.name_parts(profile);
    let name = profile.string(info.name);
    let file = profile.string(info.file);
    for part in &mut parts {
        if !name.is_empty() && part == name {
            *part = escape(&short_name(name)).replace("::", "\\n").replace("[...]", "[…]");
            *part = part.replace('.', "\\n");
        } else if !file.is_empty() && part.starts_with(file) {
            *part = escape(&part.replacen(file, base_name(file), 1));
        } else {
            *part = escape(part);
        }
    }
    format!("{}\\n", parts.join("\\n"))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l")
}

/// Returns a colour: red for cost, green for what a diff saved, grey for what hardly matters.
pub(crate) fn heat(score: f64, is_background: bool) -> String {
    let (mut saturation, value): (f64, f64) = if is_background { (0.1, 0.93) } else { (1.0, 0.7) };
    let score = score.clamp(-1.0, 1.0);
    if score.abs() < 0.2 {
        saturation *= score.abs() / 0.2;
    }
    // Moves scores away from grey, since most are small.
    let shifted = score.signum() * score.abs().powf(0.3);
    let (red, green) = if score < 0.0 {
        (value * (1.0 + saturation * shifted), value)
    } else {
        (value, value * (1.0 - saturation * shifted))
    };
    let byte = |part: f64| (part * 255.0) as u8;
    format!("#{:02x}{:02x}{:02x}", byte(red), byte(green), byte(value * (1.0 - saturation)))
}

/// Returns a name for a box of a graph: without the path of a Go package, the package of a Java class, or the
/// namespaces before the first type of a C++ or Rust name.
fn short_name(name: &str) -> String {
    static SHAPES: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        let shape = |text: &str| Regex::new(text).expect("a valid expression");
        [
            shape(r"^(?:[\w.-]+/)+(?<rest>[^.]+\..+)"),
            shape(r"^(?:[a-z]\w*\.)*(?<rest>[A-Z][\w$]*\.(?:<init>|[a-z][\w$]*(?:\$\d+)?))(?:\(|$)"),
            shape(r"^(?:[A-Za-z_]\w*::)+(?<rest>_*[A-Z]\w*::~?[A-Za-z_]\w*(?:<.*>)?)"),
        ]
    });
    static GO_VERSION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(.*?)/v(?:[2-9]|[1-9]\d+)([./].*)$").expect("a valid expression"));
    let name = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
    let name = GO_VERSION.replace(name, "$1$2");
    let shortened =
        SHAPES.iter().find_map(|shape| shape.captures(&name)).map(|found| found["rest"].to_string());
    shortened.unwrap_or_else(|| name.into_owned())
}
