//! Prints memory answers: rows of stacks, each named by the functions that are not go-betweens.

use std::io::{self, Write};

use flamelet_profile::trend::FEWEST_MOMENTS;
use flamelet_profile::unit;

use crate::heap::{CERTAIN, Freed, Growth, Holders, LIFETIMES, Lifetimes, TEMPORARY};
use crate::names::short_name;

impl Freed {
    /// Prints the first `limit` rows.
    pub fn write_text(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        write_heading("Freed", self.total_objects, self.total_bytes, self.period, out)?;
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

impl Lifetimes {
    /// Prints the classes and the first `limit` stacks.
    pub fn write_text(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        const BAR: usize = 40;
        write_heading("Freed", self.total_objects, self.total_bytes, self.period, out)?;
        writeln!(out, "{:>12} {:>10} {:>7} {:>10}", "lived", "bytes", "share", "objects")?;
        for class in self.classes.iter().filter(|class| class.bytes != 0 || class.objects != 0) {
            let share = class.bytes as f64 / self.total_bytes.max(1) as f64;
            let bar = "█".repeat((share * BAR as f64).round().clamp(0.0, BAR as f64) as usize);
            let percent = unit::percentage(class.bytes, self.total_bytes);
            let bytes = unit::label(class.bytes, "bytes");
            writeln!(
                out,
                "{:>12} {bytes:>10} {:>7} {:>10}  {bar}",
                class.lifetime,
                percent.trim(),
                class.objects
            )?;
        }
        writeln!(
            out,
            "\n{:>10} {:>7} {:>12} {:>10}  where",
            "bytes", "share", "mostly", LIFETIMES[TEMPORARY]
        )?;
        for row in self.rows.iter().take(limit) {
            write!(
                out,
                "{:>10} {:>7} {:>12} {:>10}  ",
                unit::label(row.bytes, "bytes"),
                unit::percentage(row.bytes, self.total_bytes).trim(),
                row.mostly,
                unit::percentage(row.by_class[TEMPORARY], row.bytes).trim(),
            )?;
            write_place(out, &row.own, 43)?;
        }
        write_rest(self.rows.len(), limit, out)
    }
}

impl Holders {
    /// Prints the first `limit` rows, below a line that begins with `title`.
    pub fn write_text(&self, title: &str, limit: usize, out: &mut impl Write) -> io::Result<()> {
        write_heading(title, self.total_objects, self.total_bytes, self.period, out)?;
        writeln!(
            out,
            "{:>10} {:>7} {:>6} {:>10} {:>10}  where",
            "bytes", "share", "±", "objects", "average"
        )?;
        for row in self.rows.iter().take(limit) {
            // Objects of 0 with bytes means that objects were not counted, not that there are none.
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

impl Growth {
    /// Prints the first `limit` rows.
    pub fn write_text(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        let suspects = self.rows.iter().filter(|row| row.suspect).count();
        let bytes = unit::label(self.total_bytes, "bytes");
        writeln!(
            out,
            "Growth in {:.0} s: {bytes} in {} stacks, {suspects} of them possible leaks",
            self.seconds,
            self.rows.len()
        )?;
        if self.rows.iter().all(|row| row.steady.is_none()) && !self.rows.is_empty() {
            writeln!(out, "(steady growth is detected with {FEWEST_MOMENTS} or more profiles)")?;
        }
        writeln!(
            out,
            "{:>10} {:>10} {:>7} {:>7} {:>8}  where",
            "grown", "objects", "sigmas", "trend", "suspect"
        )?;
        for row in self.rows.iter().take(limit) {
            let sigmas = if row.sigmas >= CERTAIN { "certain".into() } else { format!("{:.1}", row.sigmas) };
            let trend = row.trend.map_or_else(|| "–".into(), |percent| format!("{percent}%"));
            let suspect = if row.suspect { "yes" } else { "no" };
            let bytes = unit::label(row.bytes, "bytes");
            write!(out, "{bytes:>10} {:>10} {sigmas:>7} {trend:>7} {suspect:>8}  ", row.objects)?;
            write_place(out, &row.own, 47)?;
        }
        write_rest(self.rows.len(), limit, out)
    }
}

/// Prints `In use: 12.40MB in 8120 objects, estimated from one sample per 512kB`.
fn write_heading(title: &str, objects: i64, bytes: i64, period: i64, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{title}: {}", unit::label(bytes, "bytes"))?;
    if objects != 0 || bytes == 0 {
        write!(out, " in {objects} objects")?;
    }
    if period > 1 {
        write!(out, ", estimated from one sample per {}", unit::label(period, "bytes"))?;
    }
    writeln!(out)
}

/// Formats how far off a value may be: `12%`.
fn relative(error: i64, value: i64) -> String {
    if error == 0 || value == 0 {
        return "–".into();
    }
    format!("{:.0}%", error as f64 * 100.0 / value.unsigned_abs() as f64)
}

fn write_rest(rows: usize, limit: usize, out: &mut impl Write) -> io::Result<()> {
    match rows.checked_sub(limit) {
        Some(rest @ 1..) => writeln!(out, "and {rest} more stacks (-n 0 shows all)"),
        _ => Ok(()),
    }
}

/// Prints a function and its callers, in two lines.
fn write_place(out: &mut impl Write, own: &[String], indent: usize) -> io::Result<()> {
    const CALLERS: usize = 4;
    const LONG: usize = 80;
    let Some((place, callers)) = own.split_first() else { return writeln!(out) };
    writeln!(out, "{place}")?;
    if !callers.is_empty() {
        let more = if callers.len() > CALLERS { " ← …" } else { "" };
        // Those of C++ are of any length.
        let shown = |name: &String| if name.len() > LONG { short_name(name) } else { name.clone() };
        let shown: Vec<String> = callers.iter().take(CALLERS).map(shown).collect();
        let shown = shown.join(" ← ");
        writeln!(out, "{:indent$}  ← {shown}{more}", "")?;
    }
    Ok(())
}
