//! `flamelet check`: a diff that fails a CI job.

use std::io::Write;
use std::process::ExitCode;

use flamelet_profile::unit;
use flamelet_report::diff::{Comparison, Diff, DiffRow};
use serde::Serialize;

use super::diff::PairArgs;
use crate::arguments::guide::Guide;
use crate::arguments::options;
use crate::arguments::values::percent;
use crate::error::Result;
use crate::job;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How much a function may grow before the check fails
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent, help_heading = "Verdict")]
    max_growth: f64,
    /// Ignore functions below this share of the total
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent, help_heading = "Verdict")]
    min_share: f64,
    #[command(flatten)]
    pair: PairArgs<options::Check>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Fail if a function costs more than before; for CI",
        examples: &[
            (
                "flamelet check main.pb.gz branch.pb.gz --max-growth 5%",
                "fails if a function grew by more than 5%",
            ),
            (
                "flamelet check --base m1.pb.gz m2.pb.gz m3.pb.gz --new b1.pb.gz b2.pb.gz b3.pb.gz",
                "with several runs per side, smaller changes stand out from noise",
            ),
            ("flamelet check main.pb.gz branch.pb.gz --json -o verdict.json", "as JSON"),
        ],
        exit_status: Some("0 nothing grew, 1 something grew, 2 bad usage or bad input."),
        ..Guide::default()
    }
}

/// The result. Its JSON form is stable.
#[derive(Serialize)]
struct Checked<'a> {
    /// Whether nothing grew by more than allowed.
    passed: bool,
    max_growth: f64,
    /// How many runs each side has.
    runs: [usize; 2],
    base_total: i64,
    new_total: i64,
    /// The functions that grew too much.
    offenders: Vec<&'a DiffRow>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let comparison = Comparison { min_share: args.min_share, ..Comparison::default() };
    let diff = super::diff::compare(&args.pair, comparison)?;
    let offenders = diff.offenders(args.max_growth, args.min_share);
    let passed = offenders.is_empty() && !diff.has_total_grown(args.max_growth);
    let checked = Checked {
        passed,
        max_growth: args.max_growth,
        runs: [diff.base_runs, diff.new_runs],
        base_total: diff.base_total,
        new_total: diff.new_total,
        offenders,
    };
    args.pair.compared.write(|is_json, out| match is_json {
        true => job::write_json(&checked, out),
        false => write_text(&checked, &diff, out),
    })?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn write_text(checked: &Checked<'_>, diff: &Diff, mut out: &mut dyn Write) -> Result<()> {
    let format = |value: i64| unit::label(value, &diff.unit);
    let limit = checked.max_growth * 100.0;
    let totals =
        format!("total {} {} -> {}", diff.sample_type, format(diff.base_total), format(diff.new_total));
    match checked.passed {
        true => writeln!(out, "ok: nothing grew by more than {limit}% and more than noise ({totals})")?,
        false => writeln!(out, "FAILED: grew by more than {limit}% and more than noise ({totals})")?,
    }
    for row in &checked.offenders {
        let own = change((row.base_flat, row.new_flat), row.flat_growth, &diff.unit);
        let with_callees = change((row.base_cum, row.new_cum), row.cum_growth, &diff.unit);
        writeln!(out, "  {}: flat {own}; cum {with_callees}", row.name)?;
    }
    Ok(diff.write_method(&mut out)?)
}

/// Says how a cost changed. `relative` is its growth relative to the speed of the runs, which decides.
fn change((base, new): (i64, i64), relative: Option<f64>, unit: &str) -> String {
    let format = |value: i64| unit::label(value, unit);
    match (base, new) {
        (0, 0) => "none, as before".to_owned(),
        (0, _) => format!("{}, none before", format(new)),
        _ => {
            let growth = (new - base) as f64 / base.unsigned_abs() as f64 * 100.0;
            let relative = relative.map(|relative| relative * 100.0);
            let relative = relative.filter(|relative| (relative - growth).abs() >= 0.5);
            let relative =
                relative.map_or_else(String::new, |growth| format!(", {growth:+.1}% at the same speed"));
            format!("{} -> {} ({growth:+.1}%{relative})", format(base), format(new))
        }
    }
}
