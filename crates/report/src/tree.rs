//! `tree` and `peek`: functions with their callers and callees.

use std::io::{self, Write};

use flamelet_profile::unit;
use regex::Regex;
use serde::Serialize;

use crate::graph::{self, Graph, Trimmed};
use crate::report::Report;

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
const LEGEND: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

/// A caller or callee of an entry.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The other function.
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
    /// What the function cost itself.
    pub flat: i64,
    /// What the function and all it called cost.
    pub cum: i64,
    /// Who calls it, heaviest first.
    pub callers: Vec<Call>,
    /// Whom it calls, heaviest first.
    pub callees: Vec<Call>,
}

/// The answer of `tree` and `peek`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// What percentages are of.
    pub total: i64,
    /// The functions.
    pub entries: Vec<TreeEntry>,
    #[serde(skip)]
    heading: Vec<String>,
    #[serde(skip)]
    output_unit: String,
    #[serde(skip)]
    has_nodes: bool,
}

/// Answers `tree`, or `peek` for the functions that match `wanted`.
pub fn tree(report: &Report, wanted: Option<&Regex>) -> Tree {
    let Trimmed { graph, candidates, dropped_nodes, .. } = graph::trimmed(report);
    let output_unit =
        report.output_unit(graph.shown().iter().map(|node| (node.flat_value(), node.cum_value())));
    let shown = graph.shown().iter().map(|node| node.flat_value()).sum();
    let count = graph.shown;
    let heading = graph::heading(report, &output_unit, shown, count, candidates, dropped_nodes, None);
    let profile = &report.profile;
    let entries = graph
        .shown()
        .iter()
        .map(|node| (node, node.info.printable(profile)))
        .filter(|(_, name)| wanted.is_none_or(|wanted| wanted.is_match(name)))
        .map(|(node, name)| TreeEntry {
            name,
            flat: node.flat_value(),
            cum: node.cum_value(),
            callers: calls(report, &graph, &node.incoming, true),
            callees: calls(report, &graph, &node.outgoing, false),
        })
        .collect();
    Tree {
        sample_type: report.value_name(),
        unit: report.unit().to_string(),
        total: report.total,
        entries,
        heading,
        output_unit,
        has_nodes: count > 0,
    }
}

fn calls(report: &Report, graph: &Graph, edges: &[usize], of_callers: bool) -> Vec<Call> {
    let sorted = graph.sorted_edges(edges, &report.profile).into_iter();
    sorted
        .map(|row| {
            let edge = &graph.edges[row];
            let other = if of_callers { edge.caller } else { edge.callee };
            let name = graph.nodes[other].info.printable(&report.profile);
            Call { name, weight: edge.weight, inlined: edge.is_inlined }
        })
        .collect()
}

impl Tree {
    /// Prints the entries as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        for line in &self.heading {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{SEPARATOR}")?;
        writeln!(out, "{LEGEND}")?;
        let format = |value: i64| report.format(value, &self.output_unit);
        let mut sum = 0i64;
        for entry in &self.entries {
            writeln!(out, "{SEPARATOR}")?;
            let call = |out: &mut dyn Write, call: &Call| {
                let mark = if call.inlined { " (inline)" } else { "" };
                let share = unit::percentage(call.weight, entry.cum);
                writeln!(out, "{:>50} {share} |   {}{mark}", format(call.weight), call.name)
            };
            entry.callers.iter().try_for_each(|caller| call(out, caller))?;
            sum = sum.saturating_add(entry.flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}                | {}",
                format(entry.flat),
                unit::percentage(entry.flat, self.total),
                unit::percentage(sum, self.total),
                format(entry.cum),
                unit::percentage(entry.cum, self.total),
                entry.name
            )?;
            entry.callees.iter().try_for_each(|callee| call(out, callee))?;
        }
        if self.has_nodes {
            writeln!(out, "{SEPARATOR}")?;
        }
        Ok(())
    }
}
