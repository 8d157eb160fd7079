//! `callgrind`: the call graph for KCachegrind and `callgrind_annotate`.

use std::io::{self, Write};

use flamelet_profile::unit;
use rustc_hash::FxHashMap;

use crate::graph::{self, Graph, GraphNode};
use crate::report::Report;

/// Writes the call graph.
pub fn write_text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let graph = graph::trimmed(report).graph;
    let output_unit =
        report.output_unit(graph.shown().iter().map(|node| (node.flat_value(), node.cum_value())));
    let in_unit = |value: i64| unit::scale(value, report.unit(), &output_unit).0 as i64;
    let profile = &report.profile;
    writeln!(out, "positions: instr line")?;
    writeln!(out, "events: {}({output_unit})", report.value_name())?;
    let (mut objects, mut files, mut names) =
        (NumberedNames::default(), NumberedNames::default(), NumberedNames::default());
    let callees = distinct_names(report, &graph);
    let mut before: Option<usize> = None;
    for (row, node) in graph.shown().iter().enumerate() {
        let info = node.info;
        let is_same = before.is_some_and(|before| {
            let other = graph.nodes[before].info;
            (other.object, other.file, other.name) == (info.object, info.file, info.name)
        });
        if !is_same {
            writeln!(out)?;
            writeln!(out, "ob={}", objects.short(profile.string(info.object)))?;
            writeln!(out, "fl={}", files.short(profile.string(info.file)))?;
            writeln!(out, "fn={}", names.short(profile.string(info.name)))?;
        }
        let last_address = before.map(|before| graph.nodes[before].info.address);
        let address = relative(last_address, info.address);
        writeln!(out, "{address} {} {}", info.line, in_unit(node.flat_value()))?;
        for edge in graph.sorted_edges(&node.outgoing, profile) {
            let edge = &graph.edges[edge];
            let callee = graph.nodes[edge.callee].info;
            writeln!(out, "cfl={}", files.short(profile.string(callee.file)))?;
            writeln!(out, "cfn={}", names.short(&callees[edge.callee]))?;
            writeln!(out, "calls=0 {} {}", relative(last_address, callee.address), callee.line)?;
            writeln!(out, "* * {}", in_unit(edge.value()))?;
        }
        before = Some(row);
    }
    Ok(())
}

/// Returns the names of the nodes as callees. Readers merge functions of the same file and name, so functions that
/// differ in their binary or place get a number: `name [1/2]`.
fn distinct_names(report: &Report, graph: &Graph) -> Vec<String> {
    let mut variants: FxHashMap<_, Vec<_>> = FxHashMap::default();
    let key = |node: &GraphNode| (node.info.file, node.info.name);
    let variant = |node: &GraphNode| (node.info.object, node.info.start_line);
    for node in graph.shown() {
        let known = variants.entry(key(node)).or_default();
        if !known.contains(&variant(node)) {
            known.push(variant(node));
        }
    }
    let name = |node: &GraphNode| {
        let name = report.profile.string(node.info.name);
        let known = variants.get(&key(node)).map_or(&[][..], Vec::as_slice);
        match known.iter().position(|other| *other == variant(node)) {
            Some(at) if known.len() > 1 => format!("{name} [{}/{}]", at + 1, known.len()),
            _ => name.to_string(),
        }
    };
    graph.nodes.iter().map(name).collect()
}

/// Numbers names: callgrind writes a name once, with a number, and then only the number.
#[derive(Default)]
struct NumberedNames {
    numbers: FxHashMap<String, usize>,
}

impl NumberedNames {
    fn short(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        // A line break in a name would start a line that is read as a cost.
        let name = &*name.replace(['\n', '\r'], " ");
        if let Some(number) = self.numbers.get(name) {
            return format!("({number})");
        }
        let number = self.numbers.len() + 1;
        self.numbers.insert(name.to_string(), number);
        format!("({number}) {name}")
    }
}

/// Returns an address relative to the previous one, if that is shorter.
fn relative(before: Option<u64>, address: u64) -> String {
    let absolute = format!("{address:#x}");
    let Some(before) = before else { return absolute };
    if before == address {
        return "*".into();
    }
    let difference = format!("{:+}", address.wrapping_sub(before) as i64);
    if difference.len() < absolute.len() { difference } else { absolute }
}
