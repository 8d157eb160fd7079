//! Who frees what others allocated.

use std::io::{self, Write};

use flamelet_profile::{Result, unit};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::View;
use super::holders::{write_heading, write_rest};
use super::stacks::{Counts, Stacks, period};
use crate::node::NodeId;
use crate::report::Report;

/// The frame between where memory was freed (inside of it) and where it had been allocated (outside).
const MARK: &str = "[freed by]";

/// Memory that one function allocated and another freed.
#[derive(Clone, Debug, Serialize)]
pub struct FreedRow {
    /// The bytes.
    pub bytes: i64,
    /// The objects.
    pub objects: i64,
    /// The function that allocated.
    pub allocated_by: String,
    /// The function that freed.
    pub freed_by: String,
    /// How many different pairs of stacks that were.
    pub stacks: usize,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Freed {
    /// Bytes in all.
    pub total_bytes: i64,
    /// Objects in all.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was seen.
    pub period: i64,
    /// Pairs of functions, most bytes first.
    pub rows: Vec<FreedRow>,
}

/// Who frees what, by pairs of functions.
pub fn freed(report: &Report) -> Result<Freed> {
    let stacks = Stacks::of(report, View::Freed)?;
    let mark = stacks.names.iter().position(|name| name == MARK).map(|at| at as NodeId);
    let mut pairs: FxHashMap<(String, String), (Counts, usize)> = FxHashMap::default();
    for (stack, counts) in &stacks.rows {
        let at = stack.iter().position(|&node| Some(node) == mark);
        // Without the mark it is not known where it was freed.
        let (freed, allocated) = at.map_or((&[][..], &stack[..]), |at| (&stack[..at], &stack[at + 1..]));
        let pair = pairs
            .entry((stacks.own(allocated).swap_remove(0), stacks.own(freed).swap_remove(0)))
            .or_default();
        pair.0.add(*counts);
        pair.1 += 1;
    }
    let row = |((allocated_by, freed_by), (counts, stacks)): ((String, String), (Counts, usize))| FreedRow {
        bytes: counts.bytes,
        objects: counts.objects,
        allocated_by,
        freed_by,
        stacks,
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

impl Freed {
    /// Prints the first `limit` rows for a person.
    pub fn write_text(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        write_heading(
            "Freed",
            Counts { objects: self.total_objects, bytes: self.total_bytes },
            self.period,
            out,
        )?;
        writeln!(out, "{:>10} {:>7} {:>10}  allocated by, freed by", "bytes", "share", "objects")?;
        for row in self.rows.iter().take(limit) {
            let share = unit::percentage(row.bytes, self.total_bytes);
            let bytes = unit::label(row.bytes, "bytes");
            writeln!(out, "{bytes:>10} {:>7} {:>10}  {}", share.trim(), row.objects, row.allocated_by)?;
            let freed_by = if row.freed_by == row.allocated_by { "the same" } else { &row.freed_by };
            writeln!(out, "{:29}    freed by {freed_by}", "")?;
        }
        write_rest(self.rows.len(), limit, out)
    }
}
