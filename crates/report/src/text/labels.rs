//! Labels as `go tool pprof` prints them.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::labels::Tags;
use crate::report::Report;

impl Tags {
    /// Prints the labels as pprof does.
    pub fn write_text(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let format = |value: i64| report.format(value, &report.options.unit);
        let share = |value: i64| match self.measure.total {
            1.. => format!(" ({})", unit::percentage(value, self.measure.total)),
            _ => String::new(),
        };
        for key in &self.keys {
            let values: Vec<String> =
                key.values.iter().map(|tag| format!("{}{}:", format(tag.value), share(tag.value))).collect();
            let first = format!("{}:", key.key);
            let widest = values.iter().map(|text| text.chars().count() + 1);
            let width = widest.chain([first.chars().count()]).max().unwrap_or(0);
            let of_all =
                format!("Total {} of {}{}", format(key.total), format(self.measure.total), share(key.total));
            writeln!(out, "{first:>width$} {of_all}")?;
            for (tag, text) in std::iter::zip(&key.values, values) {
                writeln!(out, "{text:>width$} {}", tag.name)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
