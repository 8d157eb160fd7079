//! Every sample as `go tool pprof` prints it.

use std::io::{self, Write};

use crate::report::Report;
use crate::traces::traces;

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

/// Prints every sample as pprof does.
pub fn write_text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for line in report.heading(&report.options.unit) {
        writeln!(out, "{line}")?;
    }
    for trace in traces(report) {
        writeln!(out, "{SEPARATOR}")?;
        for labels in [&trace.labels, &trace.numbers] {
            // Sorted in printed form: keys are padded, so short ones come first.
            let mut lines: Vec<String> =
                labels.iter().map(|(key, values)| format!("{key:>10}:  {}", values.join(" "))).collect();
            lines.sort();
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        let mut value = report.format(trace.value, &report.options.unit);
        for frame in &trace.frames {
            let mark = if frame.inlined { " (inline)" } else { "" };
            writeln!(out, "{value:>10}   {}{mark}", frame.name)?;
            value.clear();
        }
    }
    writeln!(out, "{SEPARATOR}")
}
