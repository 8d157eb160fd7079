//! Functions between their callers and their callees, as `go tool pprof` prints them.

use std::io::{self, Write};

use flamelet_profile::unit;

use super::heading::heading;
use crate::report::Report;
use crate::tree::{Call, Tree};

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
const LEGEND: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

impl Tree {
    /// Prints the entries as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        for line in heading(report, &self.output_unit, &self.extent) {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{SEPARATOR}")?;
        writeln!(out, "{LEGEND}")?;
        let format = |value: i64| report.format(value, &self.output_unit);
        let mut sum = 0i64;
        for entry in &self.entries {
            writeln!(out, "{SEPARATOR}")?;
            let call = |out: &mut dyn Write, call: &Call| {
                let mark = if call.inlined { " (inline)" } else { "" };
                let share = unit::percentage(call.weight, entry.cum);
                writeln!(out, "{:>50} {share} |   {}{mark}", format(call.weight), call.name)
            };
            entry.callers.iter().try_for_each(|caller| call(out, caller))?;
            sum = sum.saturating_add(entry.flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}                | {}",
                format(entry.flat),
                unit::percentage(entry.flat, self.measure.total),
                unit::percentage(sum, self.measure.total),
                format(entry.cum),
                unit::percentage(entry.cum, self.measure.total),
                entry.name
            )?;
            entry.callees.iter().try_for_each(|callee| call(out, callee))?;
        }
        if self.extent.count > 0 {
            writeln!(out, "{SEPARATOR}")?;
        }
        Ok(())
    }
}
