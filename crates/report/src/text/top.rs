//! The functions in `go tool pprof`'s columns.

use std::io::{self, Write};

use flamelet_profile::unit;

use super::heading::heading;
use crate::report::{Extent, Report};
use crate::top::Top;

impl Top {
    /// Prints the rows in pprof's columns.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let output_unit = report.output_unit(self.rows.iter().map(|row| (row.flat, row.cum)));
        let extent = Extent {
            shown: self.shown,
            count: self.rows.len(),
            candidates: self.candidates,
            dropped: self.dropped,
            dropped_edges: None,
        };
        for line in heading(report, &output_unit, &extent) {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum")?;
        let mut sum = 0i64;
        for row in &self.rows {
            sum = sum.saturating_add(row.flat);
            let (flat, cum) = (report.format(row.flat, &output_unit), report.format(row.cum, &output_unit));
            writeln!(
                out,
                "{flat:>10} {} {} {cum:>10} {}  {}{}",
                unit::percentage(row.flat, self.measure.total),
                unit::percentage(sum, self.measure.total),
                unit::percentage(row.cum, self.measure.total),
                row.name,
                row.inlined.mark()
            )?;
        }
        Ok(())
    }
}
