//! `top`: the functions, by what they cost themselves and with all they call.

use std::io::{self, Write};

use flamelet_profile::unit;
use serde::Serialize;

pub use crate::graph::Inlined;
use crate::graph::{self, Weights};
use crate::node::{NodeId, Nodes};
use crate::options::Sort;
use crate::report::Report;

/// One row of `top`.
#[derive(Clone, Debug, Serialize)]
pub struct TopRow {
    /// The function.
    pub name: String,
    /// Whether the function was inlined into its callers: always, sometimes or never.
    pub inlined: Inlined,
    /// What the function cost itself.
    pub flat: i64,
    /// What the function and all it called cost.
    pub cum: i64,
}

/// The answer of `top`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Top {
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// What percentages are of.
    pub total: i64,
    /// The sum of the rows' own cost.
    pub shown: i64,
    /// How many functions were too small to be shown.
    pub dropped: usize,
    /// How many functions there were before the count was limited.
    pub candidates: usize,
    /// The functions.
    pub rows: Vec<TopRow>,
    #[serde(skip)]
    heading: Vec<String>,
    #[serde(skip)]
    formatted: Vec<(String, String)>,
}

/// Answers `top`.
pub fn top(report: &Report) -> Top {
    let nodes = Nodes::of(&report.profile, false);
    let mut weights = Weights::of(report, &nodes);
    let cutoffs = graph::Cutoffs::of(report, weights.flat.iter().sum());
    let mut kept: Vec<NodeId> = weights.present(report.options.drop_negative);
    let all = kept.len();
    if cutoffs.node > 0 {
        kept.retain(|&node| weights.cum[node as usize].saturating_abs() >= cutoffs.node);
    }
    let (dropped, candidates) = (all - kept.len(), kept.len());
    let is_cum = report.options.sort == Sort::Cum;
    graph::sort_nodes(&mut kept, &report.profile, &nodes, &weights, is_cum);
    let limit = report.options.node_count.unwrap_or(0);
    if limit > 0 {
        kept.truncate(limit);
    }
    let inlined = graph::inlined(report, &nodes, &kept, cutoffs.edge);
    weights.take_means();
    let rows: Vec<TopRow> = std::iter::zip(&kept, inlined)
        .map(|(&node, inlined)| TopRow {
            name: nodes.infos[node as usize].printable(&report.profile),
            inlined,
            flat: weights.flat[node as usize],
            cum: weights.cum[node as usize],
        })
        .collect();
    let shown = rows.iter().map(|row| row.flat).sum();
    let output_unit = report.output_unit(rows.iter().map(|row| (row.flat, row.cum)));
    let heading = graph::heading(report, &output_unit, shown, rows.len(), candidates, dropped, None);
    let formatted = rows
        .iter()
        .map(|row| (report.format(row.flat, &output_unit), report.format(row.cum, &output_unit)))
        .collect();
    Top {
        sample_type: report.value_name(),
        unit: report.unit().to_string(),
        total: report.total,
        shown,
        dropped,
        candidates,
        rows,
        heading,
        formatted,
    }
}

impl Top {
    /// Prints the rows in pprof's columns.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        for line in &self.heading {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum")?;
        let mut sum = 0i64;
        for (row, (flat, cum)) in std::iter::zip(&self.rows, &self.formatted) {
            sum = sum.saturating_add(row.flat);
            writeln!(
                out,
                "{flat:>10} {} {} {cum:>10} {}  {}{}",
                unit::percentage(row.flat, self.total),
                unit::percentage(sum, self.total),
                unit::percentage(row.cum, self.total),
                row.name,
                row.inlined.mark()
            )?;
        }
        Ok(())
    }
}

/// A profile with one frame a sample: the functions of `top` with their cumulative and own values.
pub fn top_profile(report: &Report) -> flamelet_profile::Profile {
    let answer = top(report);
    let mut builder = flamelet_profile::ProfileBuilder::new(&[("cum", &answer.unit), ("flat", &answer.unit)]);
    for row in &answer.rows {
        let function = builder.named_function(&row.name, "");
        let location = builder.frame(function, 0);
        let stack = builder.stack(&[location]);
        builder.sample(stack, flamelet_profile::LabelSetId::EMPTY, &[row.cum, row.flat]);
    }
    let profile = report.profile();
    let period_type = profile
        .header
        .period_type
        .map(|period| builder.value_type(profile.string(period.kind), profile.string(period.unit)));
    let header = builder.header_mut();
    header.time_nanos = profile.header.time_nanos;
    header.duration_nanos = profile.header.duration_nanos;
    (header.period_type, header.period) = (period_type, profile.header.period);
    builder.finish()
}
