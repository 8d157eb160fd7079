//! The findings of `explain`, in sentences.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::explain::{Change, Changes, Explanation, Finding};

impl Changes {
    /// Prints the sentences.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.summary)?;
        let mut list = |title: &str, changes: &[Change]| {
            if changes.is_empty() {
                return Ok(());
            }
            writeln!(out, "\n{title}")?;
            changes.iter().try_for_each(|change| writeln!(out, "  {}", change.sentence))
        };
        list("Costs more:", &self.more)?;
        list("Costs less:", &self.less)
    }
}

impl Explanation {
    /// Prints the findings.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        if self.findings.is_empty() {
            return self.write_nothing(out);
        }
        for (number, finding) in self.findings.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            finding.write_text(number + 1, out)?;
        }
        Ok(())
    }

    fn write_nothing(&self, out: &mut impl Write) -> io::Result<()> {
        let what = match self.unit.as_str() {
            "count" => format!("{} {}", self.total, self.sample_type),
            unit => format!("{} of {}", unit::label(self.total, unit), self.sample_type),
        };
        writeln!(out, "Nothing stands out in {what}.")?;
        let Some(heaviest) = &self.heaviest else { return Ok(()) };
        let share = heaviest.share * 100.0;
        writeln!(out, "Your heaviest function is {}, with {share:.1} %.", heaviest.function)?;
        writeln!(out, "Look closer: flamelet {}", self.dig)
    }
}

impl Finding {
    fn write_text(&self, number: usize, out: &mut impl Write) -> io::Result<()> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match self.share > 0.0 {
            true => {
                let (low, high) = self.range;
                writeln!(
                    out,
                    "{number}. {}: {} ({} to {})",
                    self.title,
                    percent(self.share),
                    percent(low),
                    percent(high)
                )?;
            }
            false => writeln!(out, "{number}. {}", self.title)?,
        }
        if self.confidence == "low" {
            writeln!(out, "   Uncertain: too few samples to be sure. Profile for longer to confirm it.")?;
        }
        for place in &self.places {
            let line = if place.line > 0 { format!(":{}", place.line) } else { String::new() };
            let at = if place.file.is_empty() { String::new() } else { format!("  {}{line}", place.file) };
            writeln!(out, "   {:>7}  {}{at}", percent(place.share), place.function)?;
        }
        writeln!(out, "   Why it matters: {}.", self.why)?;
        writeln!(out, "   What usually helps: {}.", self.helps)?;
        writeln!(out, "   Look closer: flamelet {}", self.dig)
    }
}
