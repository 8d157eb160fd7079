//! The call graph of a profile: nodes with their cost, edges with what flows over them, trimmed to what
//! matters. Trimming follows `go tool pprof`, so that both show the same functions.

mod build;
mod tags;
mod trim;
mod walk;
mod weights;

use flamelet_profile::unit;

pub use build::{Edge, Graph, GraphNode};
pub(crate) use tags::{Tag, join as join_tags, sort as sort_tags};
pub(crate) use trim::{Trimmed, trimmed};
pub use weights::Inlined;
pub(crate) use weights::{Weights, inlined, sort_nodes};

use crate::report::Report;

/// Below which values nodes and edges are left out.
pub(crate) struct Cutoffs {
    pub(crate) node: i64,
    pub(crate) edge: i64,
}

impl Cutoffs {
    /// The cut-offs for a graph whose nodes cost `total`.
    pub(crate) fn of(report: &Report, total: i64) -> Self {
        let share = |fraction: f64| ((total as f64 * fraction) as i64).saturating_abs();
        Self { node: share(report.options.node_fraction), edge: share(report.options.edge_fraction) }
    }
}

/// The lines above a report: what the profile is, and what part of it is shown. `dropped_edges` is given
/// by reports that draw edges.
pub(crate) fn heading(
    report: &Report,
    output_unit: &str,
    shown: i64,
    count: usize,
    candidates: usize,
    dropped: usize,
    dropped_edges: Option<usize>,
) -> Vec<String> {
    let options = &report.options;
    let mut lines = Vec::new();
    if !options.compact_labels || dropped_edges.is_some() {
        lines = report.heading(output_unit);
    }
    let filters = options.active_filters();
    if !filters.is_empty() {
        lines.push("Active filters:".into());
        lines.extend(filters.iter().map(|filter| match filter.char_indices().nth(80) {
            Some((end, _)) => format!("   {}…", &filter[..end]),
            None => format!("   {filter}"),
        }));
    }
    let format = |value: i64| report.format(value, output_unit);
    let share = unit::percentage(shown, report.total);
    lines.push(format!(
        "Showing nodes accounting for {}, {} of {} total",
        format(shown),
        share.trim(),
        format(report.total)
    ));
    if report.total != 0 {
        let cutoffs = Cutoffs::of(report, report.total);
        let plural = |count: usize| if count > 1 { "s" } else { "" };
        if dropped > 0 {
            let limit = format(cutoffs.node);
            lines.push(format!("Dropped {dropped} node{} (cum <= {limit})", plural(dropped)));
        }
        if let Some(dropped @ 1..) = dropped_edges {
            let limit = format(cutoffs.edge);
            lines.push(format!("Dropped {dropped} edge{} (freq <= {limit})", plural(dropped)));
        }
        if count > 0 && count < candidates {
            lines.push(format!("Showing top {count} nodes out of {candidates}"));
        }
    }
    lines
}
