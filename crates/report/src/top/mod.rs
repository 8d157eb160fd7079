//! `top`: the functions, by their own and their cumulative cost.

use serde::Serialize;

mod inlined;

pub use inlined::Inlined;

use crate::graph::{Cutoffs, is_negative};
use crate::options::Sort;
use crate::report::{Cost, Measure, Report, sum};
use crate::stacks::{EntryCost, NodeId, Nodes};

/// One row of `top`.
#[derive(Clone, Debug, Serialize)]
pub struct TopRow {
    /// The function.
    pub name: String,
    /// Whether the function was inlined into its callers: always, sometimes or never.
    pub inlined: Inlined,
    /// Its own cost.
    pub flat: i64,
    /// Its cost, including everything it called.
    pub cum: i64,
}

/// The answer of `top`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Top {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The sum of the rows' own cost.
    pub shown: i64,
    /// How many functions were too small to be shown.
    pub dropped: usize,
    /// How many functions there were before the count was limited.
    pub candidates: usize,
    /// The functions.
    pub rows: Vec<TopRow>,
}

/// Computes `top`.
pub fn top(report: &Report) -> Top {
    let nodes = Nodes::of(&report.profile, false);
    let costs = report.costs(&nodes);
    let cutoffs = Cutoffs::of(report, sum(costs.iter().map(|cost| cost.flat.sum)));
    let mut kept = present(&costs, report.options.drop_negative);
    let all = kept.len();
    if cutoffs.node > 0 {
        kept.retain(|&node| costs[node as usize].cum.sum.saturating_abs() >= cutoffs.node);
    }
    let (dropped, candidates) = (all - kept.len(), kept.len());
    sort(&mut kept, report, &nodes, &costs);
    let limit = report.options.node_count.unwrap_or(0);
    if limit > 0 {
        kept.truncate(limit);
    }
    if report.options.reverse {
        kept.reverse();
    }
    let inlined = inlined::inlined(report, &nodes, &kept, cutoffs.edge);
    let rows: Vec<TopRow> = std::iter::zip(&kept, inlined)
        .map(|(&node, inlined)| TopRow {
            name: nodes.infos[node as usize].printable(&report.profile),
            inlined,
            flat: costs[node as usize].flat.value(),
            cum: costs[node as usize].cum.value(),
        })
        .collect();
    let shown = sum(rows.iter().map(|row| row.flat));
    Top { measure: report.measure(), shown, dropped, candidates, rows }
}

/// Returns the nodes that cost anything.
fn present(costs: &[EntryCost<Cost>], drop_negative: bool) -> Vec<NodeId> {
    let is_present = |&node: &NodeId| {
        let (flat, cum) = (costs[node as usize].flat.sum, costs[node as usize].cum.sum);
        (flat != 0 || cum != 0) && !(drop_negative && is_negative(flat, cum))
    };
    (0..costs.len() as NodeId).filter(is_present).collect()
}

/// Sorts by cost, then by name.
fn sort(ids: &mut Vec<NodeId>, report: &Report, nodes: &Nodes, costs: &[EntryCost<Cost>]) {
    let by_cum = report.options.sort == Sort::Cum;
    let mut keyed: Vec<((u64, u64), String, NodeId)> = ids
        .iter()
        .map(|&node| {
            let EntryCost { flat, cum } = costs[node as usize];
            let (flat, cum) = (flat.sum.unsigned_abs(), cum.sum.unsigned_abs());
            let size = if by_cum { (cum, flat) } else { (flat, cum) };
            (size, nodes.infos[node as usize].printable(&report.profile), node)
        })
        .collect();
    keyed.sort_by(|((a_first, a_second), a_name, a), ((b_first, b_second), b_name, b)| {
        let order = b_first.cmp(a_first).then_with(|| a_name.cmp(b_name)).then(b_second.cmp(a_second));
        order.then_with(|| nodes.infos[*a as usize].cmp(&nodes.infos[*b as usize]))
    });
    *ids = keyed.into_iter().map(|(.., node)| node).collect();
}

/// Returns a profile with one frame per sample: the functions of `top` with their cumulative and own values.
pub fn top_profile(report: &Report) -> flamelet_profile::Profile {
    let answer = top(report);
    let mut builder = flamelet_profile::ProfileBuilder::new(&[
        ("cum", &answer.measure.unit),
        ("flat", &answer.measure.unit),
    ]);
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
