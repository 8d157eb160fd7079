//! Who holds memory: stacks with what is in use, was allocated, or was held at the peak.

use std::io::{self, Write};

use flamelet_profile::{Result, unit};
use serde::Serialize;

use super::View;
use super::stacks::{Counts, Stacks, period, write_place};
use crate::report::Report;

/// A stack that holds memory.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// The bytes.
    pub bytes: i64,
    /// One standard deviation of the bytes.
    pub error: i64,
    /// The objects.
    pub objects: i64,
    /// The functions that are nobody's go-betweens, innermost first.
    pub own: Vec<String>,
    /// All functions, innermost first.
    pub stack: Vec<String>,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Holders {
    /// What is counted: `inuse_space`, `alloc_space`, …
    pub sample_type: &'static str,
    /// Bytes in all.
    pub total_bytes: i64,
    /// Objects in all.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was seen.
    pub period: i64,
    /// The stacks, most bytes first.
    pub rows: Vec<Holder>,
}

/// The stacks of a view of one moment: [`View::InUse`], [`View::Allocated`] or [`View::Peak`].
pub fn holders(report: &Report, view: View) -> Result<Holders> {
    let stacks = Stacks::of(report, view)?;
    Ok(Holders::of(report, view, &stacks))
}

impl Holders {
    pub(super) fn of(report: &Report, view: View, stacks: &Stacks) -> Self {
        let (period, total) = (period(report.profile()), stacks.total());
        let rows = stacks.rows.iter().map(|(stack, counts)| Holder {
            bytes: counts.bytes,
            error: counts.error(period),
            objects: counts.objects,
            own: stacks.own(stack),
            stack: stacks.named(stack),
        });
        Self {
            sample_type: view.types()[1],
            total_bytes: total.bytes,
            total_objects: total.objects,
            period,
            rows: rows.collect(),
        }
    }

    /// Prints the first `limit` rows for a person, below a line that begins with `title`.
    pub fn write_text(&self, title: &str, limit: usize, out: &mut impl Write) -> io::Result<()> {
        let total = Counts { objects: self.total_objects, bytes: self.total_bytes };
        write_heading(title, total, self.period, out)?;
        writeln!(
            out,
            "{:>10} {:>7} {:>6} {:>10} {:>10}  where",
            "bytes", "share", "±", "objects", "average"
        )?;
        for row in self.rows.iter().take(limit) {
            // Without a count of the objects: it is not known, rather than none.
            let is_known = row.objects != 0 || row.bytes == 0;
            let known = |text: String| if is_known { text } else { "–".into() };
            let average = row.bytes.checked_div(row.objects).unwrap_or(0);
            write!(
                out,
                "{:>10} {:>7} {:>6} {:>10} {:>10}  ",
                unit::label(row.bytes, "bytes"),
                unit::percentage(row.bytes, self.total_bytes).trim(),
                relative(row.error, row.bytes),
                known(row.objects.to_string()),
                known(unit::label(average, "bytes")),
            )?;
            write_place(out, &row.own, 48)?;
        }
        write_rest(self.rows.len(), limit, out)
    }
}

/// `In use: 12.40MB in 8120 objects, one sample in 512kB`.
pub(super) fn write_heading(title: &str, total: Counts, period: i64, out: &mut impl Write) -> io::Result<()> {
    let bytes = unit::label(total.bytes, "bytes");
    write!(out, "{title}: {bytes}")?;
    if total.objects != 0 || total.bytes == 0 {
        write!(out, " in {} objects", total.objects)?;
    }
    if period > 1 {
        write!(out, ", estimated from one sample in {}", unit::label(period, "bytes"))?;
    }
    writeln!(out)
}

/// `12%`: how far off a value may be.
pub(super) fn relative(error: i64, value: i64) -> String {
    if error == 0 || value == 0 {
        return "–".into();
    }
    format!("{:.0}%", error as f64 * 100.0 / value.unsigned_abs() as f64)
}

pub(super) fn write_rest(rows: usize, limit: usize, out: &mut impl Write) -> io::Result<()> {
    match rows.checked_sub(limit) {
        Some(rest @ 1..) => writeln!(out, "and {rest} more stacks (-n 0 shows all)"),
        _ => Ok(()),
    }
}
