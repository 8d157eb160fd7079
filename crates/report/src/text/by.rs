//! Costs by the owner of the code, broken down into their parts.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::by::{Group, Groups};
use crate::report::Report;

impl Groups {
    /// Prints the rows in pprof's columns, with the parts of each below it.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let output_unit = report.output_unit(self.rows.iter().map(|row| (row.flat, row.cum)));
        writeln!(out, "{:>10} {:>5}% {:>10} {:>5}%  by {}", "flat", "flat", "cum", "cum", self.by)?;
        for row in &self.rows {
            let (flat, cum) = (report.format(row.flat, &output_unit), report.format(row.cum, &output_unit));
            writeln!(
                out,
                "{flat:>10} {} {cum:>10} {}  {}",
                unit::percentage(row.flat, self.total),
                unit::percentage(row.cum, self.total),
                row.name
            )?;
            if let Some(line) = parts_line(row) {
                writeln!(out, "{:38}{line}", "")?;
            }
        }
        if self.without_yours != 0 {
            let share = unit::percentage(self.without_yours, self.total);
            writeln!(out, "{} of the total has none of your code on the stack.", share.trim())?;
        }
        Ok(())
    }
}

/// Formats the largest parts of a group in one line; `None` if there is only its own code.
fn parts_line(row: &Group) -> Option<String> {
    if row.parts.iter().all(|part| part.name == "own code") || row.flat == 0 {
        return None;
    }
    let shown = row.parts.iter().take(5).filter_map(|part| {
        let share = (part.value as f64 / row.flat as f64 * 100.0).round();
        (share != 0.0).then(|| format!("{} {share:.0}%", part.name))
    });
    Some(shown.collect::<Vec<_>>().join(" · ")).filter(|line| !line.is_empty())
}
