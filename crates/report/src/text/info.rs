//! Prints what a profile is and how good it is.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::info::Info;
use crate::utc::utc;

impl Info {
    /// Returns the verdict in lines: the one thing that matters most, then the rest.
    pub fn verdict_lines(&self) -> Vec<String> {
        let verdict = self.verdict.word();
        let Some((worst, others)) = self.faults.split_first() else {
            return vec![format!("Quality: {verdict}")];
        };
        let first = format!("Quality: {verdict}: {worst}");
        std::iter::once(first).chain(others.iter().map(|fault| format!("  - {fault}"))).collect()
    }

    /// Prints the facts.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.verdict_lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if self.time_nanos != 0 {
            writeln!(out, "Time: {}", utc(self.time_nanos))?;
        }
        if self.duration_nanos != 0 {
            writeln!(out, "Duration: {}", unit::label(self.duration_nanos, "nanoseconds"))?;
        }
        if let Some(period_type) = &self.period_type {
            let (kind, from) = period_type.split_once('/').unwrap_or((period_type, ""));
            writeln!(out, "Period: {} of {kind}", unit::label(self.period, from))?;
        }
        writeln!(out, "Sample types:")?;
        for value in &self.sample_types {
            let mark = if value.is_default { "  (default)" } else { "" };
            let total = unit::label(value.total, &value.unit);
            writeln!(out, "  {:<16} {:<12} total {total}{mark}", value.kind, value.unit)?;
        }
        let frames = if self.deepest_stack == 1 { "frame" } else { "frames" };
        writeln!(out, "Samples: {} (deepest stack {} {frames})", self.samples, self.deepest_stack)?;
        if let Some(observations) = self.observations {
            writeln!(out, "Observations: {observations:.0} (effective)")?;
        }
        writeln!(out, "Functions: {}", self.functions)?;
        writeln!(out, "Locations: {} ({} without a name)", self.locations, self.unnamed_locations)?;
        if let Some(threads) = self.threads {
            writeln!(out, "Timeline: {threads} threads")?;
        }
        if !self.labels.is_empty() {
            writeln!(out, "Labels: {}", self.labels.join(", "))?;
        }
        if !self.mappings.is_empty() {
            writeln!(out, "Mappings:")?;
        }
        for mapping in &self.mappings {
            let build_id = if mapping.build_id.is_empty() { "no build id" } else { &mapping.build_id };
            let file = if mapping.file.is_empty() { "[unknown file]" } else { &mapping.file };
            writeln!(out, "  {:#x}-{:#x} {file} ({build_id})", mapping.start, mapping.limit)?;
        }
        if !self.comments.is_empty() {
            writeln!(out, "Comments:")?;
        }
        self.comments.iter().try_for_each(|comment| writeln!(out, "  {comment}"))
    }
}
