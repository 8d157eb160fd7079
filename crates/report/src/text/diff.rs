//! Prints what changed between two profiles.

use std::io::{self, Write};

use flamelet_profile::unit;

use crate::diff::{ASSUMED_VARIATION, Diff, LEVEL};

impl Diff {
    /// Says what the change of the total means.
    fn judgement(&self) -> &'static str {
        match (self.base_total, self.new_total) {
            (0, 0) => "both are empty",
            (0, _) => "the first has no samples, so nothing can be compared",
            (_, 0) => "the second has no samples, so nothing can be compared",
            _ if self.total_is_real => "more than noise",
            _ if !self.knows_runs => "not certain from one run a side",
            _ => "within noise",
        }
    }

    /// Prints the rows; a mark shows which changes are more than noise.
    pub fn write_text(&self, out: &mut impl Write, limit: usize) -> io::Result<()> {
        let format = |value: i64| unit::label(value, &self.unit);
        let signed = |value: i64| if value > 0 { format!("+{}", format(value)) } else { format(value) };
        writeln!(out, "Type: {}", self.sample_type)?;
        let change = self.new_total.saturating_sub(self.base_total);
        writeln!(
            out,
            "Total: {} -> {} ({}, {}, {})",
            format(self.base_total),
            format(self.new_total),
            signed(change),
            relative(self.base_total, self.new_total),
            self.judgement()
        )?;
        self.write_method(out)?;
        let real = self.rows.iter().filter(|row| row.is_real()).count();
        writeln!(
            out,
            "{real} of {} functions whose value differs changed by more than noise (*)",
            self.rows.len()
        )?;
        writeln!(
            out,
            "  {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}  name",
            "base", "new", "flat", "flat%", "cum base", "cum", "cum%"
        )?;
        let shown = if limit == 0 { self.rows.len() } else { limit };
        for row in self.rows.iter().take(shown) {
            writeln!(
                out,
                "{} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}  {}",
                if row.is_real() { "*" } else { " " },
                format(row.base_flat),
                format(row.new_flat),
                signed(row.flat_change()),
                relative(row.base_flat, row.new_flat),
                format(row.base_cum),
                signed(row.cum_change()),
                relative(row.base_cum, row.new_cum),
                row.name
            )?;
        }
        if self.rows.len() > shown {
            writeln!(out, "… and {} more (--nodecount 0 shows all)", self.rows.len() - shown)?;
        }
        Ok(())
    }
}

impl Diff {
    /// Prints what is known about noise, and what was left out or scaled.
    pub fn write_method(&self, out: &mut impl Write) -> io::Result<()> {
        let level = LEVEL * 100.0;
        match self.knows_runs {
            true => {
                let varies = self.run_deviation.map_or(String::new(), |deviation| {
                    format!(
                        "; besides sampling noise, a function varies by {:.1} % from run to run",
                        deviation * 100.0
                    )
                });
                writeln!(
                    out,
                    "Noise: {} and {} runs{varies}; {} tests, with a chance of {level} % for any false alarm (Holm)",
                    self.base_runs, self.new_runs, self.tested
                )?;
            }
            false => writeln!(
                out,
                "Noise: one run per side, so only sampling noise is known; functions are compared relative to the speed of \
                 their run, and each is assumed to vary by {:.0} % between runs, so only large changes count. Compare several \
                 runs: --base A1 A2 A3 --new B1 B2 B3",
                ASSUMED_VARIATION * 100.0
            )?,
        }
        match self.scaled_to {
            Some("work") => writeln!(out, "Scaled to the amount of work that each run states")?,
            Some(_) => writeln!(out, "Scaled to the total of the base")?,
            None => {}
        }
        let [base, new] = self.set_aside.map(|share| share * 100.0);
        if base.max(new) >= 0.1 {
            writeln!(
                out,
                "Set aside: kernel interrupts and context switches, {base:.1} % of the base and {new:.1} % of the new side"
            )?;
        }
        Ok(())
    }
}

/// Formats the change in percent of the base.
fn relative(base: i64, new: i64) -> String {
    match base {
        0 if new == 0 => "0%".into(),
        0 => "new".into(),
        _ => format!("{:+.1}%", (new as f64 - base as f64) / base.unsigned_abs() as f64 * 100.0),
    }
}
