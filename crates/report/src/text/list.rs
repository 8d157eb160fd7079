//! Annotated source and instructions, as `go tool pprof` prints them.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::disasm::Disassembly;
use crate::list::List;
use crate::report::Report;

impl List {
    /// Prints the source as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let costs = Costs { report, total: self.measure.total };
        costs.write_total(out)?;
        for function in &self.functions {
            writeln!(out, "ROUTINE ======================== {} in {}", function.name, function.file)?;
            costs.write_routine(function.flat, function.cum, out)?;
            if let Some(reason) = &function.missing {
                writeln!(out, " Error: {reason}")?;
            }
            for line in &function.lines {
                let (flat, cum) = (costs.or_dot(line.flat), costs.or_dot(line.cum));
                writeln!(out, "{flat:>10} {cum:>10} {:>6}:{}", line.line, line.text)?;
            }
        }
        Ok(())
    }
}

impl Disassembly {
    /// Prints the instructions as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let costs = Costs { report, total: self.measure.total };
        costs.write_total(out)?;
        for function in &self.functions {
            writeln!(out, "ROUTINE ======================== {}", function.name)?;
            costs.write_routine(function.flat, function.cum, out)?;
            let mut last: Option<&str> = None;
            for at in &function.instructions {
                let source = at.source.as_deref().filter(|source| last != Some(source));
                let comment = source.map_or(String::new(), |source| format!("  ;{source}"));
                let (flat, cum) = (costs.or_dot(at.flat), costs.or_dot(at.cum));
                writeln!(out, "{flat:>10} {cum:>10} {:>10x}: {}{comment}", at.address, at.text)?;
                last = at.source.as_deref();
            }
        }
        Ok(())
    }
}

/// How both listings print costs.
struct Costs<'a> {
    report: &'a Report,
    total: i64,
}

impl Costs<'_> {
    fn text(&self, value: i64) -> String {
        self.report.format(value, &self.report.options.unit)
    }

    fn or_dot(&self, value: i64) -> String {
        if value == 0 { ".".to_owned() } else { self.text(value) }
    }

    fn write_total(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "Total: {}", self.text(self.total))
    }

    /// Prints the line below a routine's name.
    fn write_routine(&self, flat: i64, cum: i64, out: &mut impl Write) -> io::Result<()> {
        let share = unit::percentage(cum, self.total);
        let (flat, cum) = (self.text(flat), self.text(cum));
        writeln!(out, "{flat:>10} {cum:>10} (flat, cum) {share} of Total")
    }
}
