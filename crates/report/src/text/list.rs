//! Annotated source and instructions, as `go tool pprof` prints them.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::disasm::Disassembly;
use crate::list::List;
use crate::report::Report;

impl List {
    /// Prints the source as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let format = |value: i64| report.format(value, &report.options.unit);
        let or_dot = |value: i64| if value == 0 { ".".to_string() } else { format(value) };
        writeln!(out, "Total: {}", format(self.measure.total))?;
        for function in &self.functions {
            writeln!(out, "ROUTINE ======================== {} in {}", function.name, function.file)?;
            routine_total(
                out,
                &format(function.flat),
                &format(function.cum),
                function.cum,
                self.measure.total,
            )?;
            if let Some(reason) = &function.missing {
                writeln!(out, " Error: {reason}")?;
            }
            for line in &function.lines {
                let (flat, cum) = (or_dot(line.flat), or_dot(line.cum));
                writeln!(out, "{flat:>10} {cum:>10} {:>6}:{}", line.line, line.text)?;
            }
        }
        Ok(())
    }
}

impl Disassembly {
    /// Prints the instructions as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let format = |value: i64| report.format(value, &report.options.unit);
        let or_dot = |value: i64| if value == 0 { ".".to_string() } else { format(value) };
        writeln!(out, "Total: {}", format(self.measure.total))?;
        for function in &self.functions {
            writeln!(out, "ROUTINE ======================== {}", function.name)?;
            routine_total(
                out,
                &format(function.flat),
                &format(function.cum),
                function.cum,
                self.measure.total,
            )?;
            let mut last: Option<&str> = None;
            for at in &function.instructions {
                let source = at.source.as_deref().filter(|source| last != Some(source));
                let comment = source.map_or(String::new(), |source| format!("  ;{source}"));
                let (flat, cum) = (or_dot(at.flat), or_dot(at.cum));
                writeln!(out, "{flat:>10} {cum:>10} {:>10x}: {}{comment}", at.address, at.text)?;
                last = at.source.as_deref();
            }
        }
        Ok(())
    }
}

/// Prints the line below a routine's name.
pub(crate) fn routine_total(
    out: &mut impl Write,
    flat: &str,
    cum: &str,
    value: i64,
    total: i64,
) -> io::Result<()> {
    writeln!(out, "{flat:>10} {cum:>10} (flat, cum) {} of Total", unit::percentage(value, total))
}
