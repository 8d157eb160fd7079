//! What grows: leak suspects, ranked.

use flamelet_profile::trend::{Trend, trend};
use flamelet_profile::{HeapView, LabelSetId, Profile, Result};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::stacks::{MemoryStacks, ObjectsAndBytes, period};
use crate::report::Report;
use crate::stacks::NodeId;

pub(crate) const CERTAIN: f64 = 1000.0;

/// How many standard deviations a growth must exceed to be more than noise.
const SIGMAS: f64 = 3.0;

/// A stack whose memory grew.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthRow {
    /// The growth in bytes since the first moment.
    pub bytes: i64,
    /// The growth in objects since the first moment.
    pub objects: i64,
    /// The growth in standard deviations of the sampling.
    pub sigmas: f64,
    /// Pairs of moments that rose minus those that fell, in percent; `None` with fewer than four moments.
    pub trend: Option<i64>,
    /// Whether it rose steadily, window after window; `None` with fewer than four moments.
    pub steady: Option<bool>,
    /// Whether the growth is more than noise, with no evidence against a leak.
    pub suspect: bool,
    /// The bytes at each moment; empty if the profile has only the growth.
    pub series: Vec<i64>,
    /// The functions of interest (no go-betweens), innermost first.
    pub own: Vec<String>,
    /// All functions, innermost first.
    pub stack: Vec<String>,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// The total growth in bytes; stacks that shrank are left out.
    pub total_bytes: i64,
    /// How many moments were compared; 0 if the profile does not say.
    pub moments: usize,
    /// The time between the first and the last moment.
    pub seconds: f64,
    /// Suspects first, then the others, most bytes first in both.
    pub rows: Vec<GrowthRow>,
}

/// Returns the growth that a service has measured itself: a profile of `/debug/pprof/growth`.
pub fn growth(report: &Report) -> Result<Growth> {
    let profile = report.profile();
    let (period, of_sets) = (period(profile), trends_of_sets(profile));
    // A stack has one sample per size and thread; the steadiest of them decides.
    let mut trends: FxHashMap<Vec<NodeId>, Trend> = FxHashMap::default();
    let stacks = MemoryStacks::noting(report, HeapView::Growth, |stack, labels, _| {
        if let Some(found) = of_sets[labels.index()] {
            let known = trends.entry(stack.to_vec()).or_insert(found);
            *known = if found.percent > known.percent { found } else { *known };
        }
        true
    })?;
    let rows = stacks.rows.iter().filter(|(_, counts)| counts.bytes > 0).map(|(stack, counts)| {
        let error = counts.error(period) as f64;
        let found = trends.get(stack).copied();
        row(&stacks, stack, *counts, sigmas(counts.bytes, error), found, Vec::new())
    });
    Ok(Growth::ranked(rows.collect(), 0, profile.header.duration_nanos as f64 / 1e9))
}

/// Returns the growth between heap profiles of one service, given in time order.
pub fn growth_between(reports: &[Report]) -> Result<Growth> {
    let moments: Vec<MemoryStacks> =
        reports.iter().map(|report| MemoryStacks::of(report, HeapView::InUse)).collect::<Result<_>>()?;
    let mut series: FxHashMap<Vec<&str>, Vec<ObjectsAndBytes>> = FxHashMap::default();
    for (at, stacks) in moments.iter().enumerate() {
        for (stack, counts) in &stacks.rows {
            let names = stack.iter().map(|&node| stacks.names[node as usize].as_str()).collect();
            series.entry(names).or_insert_with(|| vec![ObjectsAndBytes::default(); moments.len()])[at]
                .add(*counts);
        }
    }
    let (Some(last), Some(stacks)) = (reports.last(), moments.last()) else {
        return Ok(Growth::ranked(Vec::new(), 0, 0.0));
    };
    let period = period(last.profile());
    let mut rows = Vec::new();
    for (stack, _) in &stacks.rows {
        let names: Vec<&str> = stack.iter().map(|&node| stacks.names[node as usize].as_str()).collect();
        let Some(counts) = series.get(&names) else { continue };
        let (before, after) = (counts[0], counts[counts.len() - 1]);
        let grown =
            ObjectsAndBytes { objects: after.objects - before.objects, bytes: after.bytes - before.bytes };
        if grown.bytes <= 0 {
            continue;
        }
        let error = (before.error(period) as f64).hypot(after.error(period) as f64);
        let bytes: Vec<i64> = counts.iter().map(|counts| counts.bytes).collect();
        let found = trend(&bytes);
        rows.push(row(stacks, stack, grown, sigmas(grown.bytes, error), found, bytes));
    }
    let time = |report: &Report| report.profile().header.time_nanos;
    let seconds = time(last).saturating_sub(time(&reports[0])) as f64 / 1e9;
    Ok(Growth::ranked(rows, reports.len(), seconds))
}

/// Returns how many standard deviations `bytes` are, at most a thousand, which is as good as certain.
fn sigmas(bytes: i64, error: f64) -> f64 {
    if error == 0.0 { CERTAIN } else { (bytes as f64 / error).min(CERTAIN) }
}

fn row(
    stacks: &MemoryStacks,
    stack: &[NodeId],
    grown: ObjectsAndBytes,
    sigmas: f64,
    found: Option<Trend>,
    series: Vec<i64>,
) -> GrowthRow {
    let steady = found.map(|found| found.is_steady);
    GrowthRow {
        bytes: grown.bytes,
        objects: grown.objects,
        sigmas,
        trend: found.map(|found| found.percent),
        steady,
        suspect: sigmas >= SIGMAS && steady != Some(false),
        series,
        own: stacks.own(stack),
        stack: stacks.named(stack),
    }
}

/// Returns for each label set what its labels `trend` and `steady` say.
fn trends_of_sets(profile: &Profile) -> Vec<Option<Trend>> {
    let key = |name: &str| profile.strings().find(name);
    let (percent, steady) = (key("trend"), key("steady"));
    let found = |set: usize| {
        let labels = profile.labels(LabelSetId::from_index(set));
        let percent = labels.iter().find(|label| Some(label.key) == percent && !label.is_text())?.number;
        let steady = labels.iter().find(|label| Some(label.key) == steady)?;
        Some(Trend { percent, is_steady: profile.string(steady.text) == "yes" })
    };
    (0..profile.label_set_count()).map(found).collect()
}

impl Growth {
    fn ranked(mut rows: Vec<GrowthRow>, moments: usize, seconds: f64) -> Self {
        rows.sort_by(|a, b| {
            let rank = |row: &GrowthRow| (row.suspect, row.bytes);
            rank(b).cmp(&rank(a)).then_with(|| a.stack.cmp(&b.stack))
        });
        let total_bytes = rows.iter().map(|row| row.bytes).sum();
        Self { total_bytes, moments, seconds, rows }
    }
}
