//! What frees memory that others allocated.

use flamelet_profile::{HeapView, Result};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::stacks::{MemoryStacks, ObjectsAndBytes, period};
use crate::report::Report;
use crate::stacks::NodeId;

/// The frame between where memory was freed (inner frames) and where it was allocated (outer frames).
const MARK: &str = "[freed by]";

/// Memory that one function allocated and another freed.
#[derive(Clone, Debug, Serialize)]
pub struct FreedRow {
    /// The bytes.
    pub bytes: i64,
    /// The objects.
    pub objects: i64,
    /// The function that allocated it.
    pub allocated_by: String,
    /// The function that freed it.
    pub freed_by: String,
    /// How many different pairs of stacks there are.
    pub stacks: usize,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Freed {
    /// The total number of bytes.
    pub total_bytes: i64,
    /// The total number of objects.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was recorded.
    pub period: i64,
    /// Pairs of functions, most bytes first.
    pub rows: Vec<FreedRow>,
}

/// Returns what frees memory, by pairs of functions.
pub fn freed(report: &Report) -> Result<Freed> {
    let stacks = MemoryStacks::of(report, HeapView::Freed)?;
    let mark = stacks.names.iter().position(|name| name == MARK).map(|at| at as NodeId);
    let mut pairs: FxHashMap<(String, String), (ObjectsAndBytes, usize)> = FxHashMap::default();
    for (stack, counts) in &stacks.rows {
        let at = stack.iter().position(|&node| Some(node) == mark);
        // Without the mark it is unknown where the memory was freed.
        let (freed, allocated) = at.map_or((&[][..], &stack[..]), |at| (&stack[..at], &stack[at + 1..]));
        let pair = pairs
            .entry((stacks.own(allocated).swap_remove(0), stacks.own(freed).swap_remove(0)))
            .or_default();
        pair.0.add(*counts);
        pair.1 += 1;
    }
    let row = |((allocated_by, freed_by), (counts, stacks)): ((String, String), (ObjectsAndBytes, usize))| {
        FreedRow { bytes: counts.bytes, objects: counts.objects, allocated_by, freed_by, stacks }
    };
    let mut rows: Vec<FreedRow> = pairs.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        let names = |row: &FreedRow| (row.allocated_by.clone(), row.freed_by.clone());
        b.bytes.cmp(&a.bytes).then_with(|| names(a).cmp(&names(b)))
    });
    let total = stacks.total();
    let period = period(report.profile());
    Ok(Freed { total_bytes: total.bytes, total_objects: total.objects, period, rows })
}
