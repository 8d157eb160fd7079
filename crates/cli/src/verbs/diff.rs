//! `flamelet diff`: what changed between two profiles.

use flamelet_profile::unit;
use flamelet_report::diff::{Diff, diff};
use flamelet_report::{Command, Report, Sort};

use crate::args::{DiffArgs, PairArgs};
use crate::error::{Failure, Result};
use crate::{output, report_job, text};

/// How many rows are shown where nobody says how many.
pub(crate) const ROWS: usize = 40;

pub(crate) fn run(args: &DiffArgs) -> Result<()> {
    let rows = args.rows();
    let answer = compare(&args.pair, rows.sort)?;
    let destination = args.pair.destination();
    let path = destination.output.as_deref();
    match destination.json {
        true => output::write(path, |out| report_job::write_json(&answer, out)),
        false => {
            let count = rows.node_count.unwrap_or(ROWS);
            text::write(path, |mut out| Ok(answer.write_text(&mut out, count)?))
        }
    }
}

/// Opens both profiles and compares them.
pub(crate) fn compare(args: &PairArgs, sort: Sort) -> Result<Diff> {
    let options = args.report_options();
    let source = args.source_options();
    source.note_unused();
    let mut notes = Vec::new();
    let before = source.open_one(&args.before, &mut notes)?;
    let mut after = source.open_one(&args.after, &mut notes)?;
    notes.iter().for_each(|note| note!("{note}"));
    if args.normalize {
        after.normalize_to(&before)?;
    }
    let before = Report::new(before, &options, Command::Top)?;
    let after = Report::new(after, &options, Command::Top)?;
    after.warnings.iter().for_each(|warning| note!("{warning}"));
    check_same_kind(&before, &after)?;
    Ok(diff(&before, &after, sort == Sort::Cum))
}

/// Nanoseconds and bytes can be subtracted, but the difference says nothing.
fn check_same_kind(before: &Report, after: &Report) -> Result<()> {
    let (from, to) = (before.unit(), after.unit());
    let is_same_unit = unit::are_compatible(from, to) && unit::ratio(from, to) == 1.0;
    if before.value_name() == after.value_name() && is_same_unit {
        return Ok(());
    }
    let kinds = |report: &Report| -> Vec<String> {
        let profile = report.profile();
        let types = profile.sample_types().iter();
        types.map(|kind| format!("{} ({})", profile.string(kind.kind), profile.string(kind.unit))).collect()
    };
    let of_after = kinds(after);
    let common: Vec<String> = kinds(before).into_iter().filter(|kind| of_after.contains(kind)).collect();
    let way_out = match common.as_slice() {
        [] => "they have no sample type in common".to_owned(),
        common => format!("choose one that both have with -i: {}", common.join(", ")),
    };
    Err(Failure::new(format!(
        "the profiles are of different kinds: {} ({from}) against {} ({to}); {way_out}",
        before.value_name(),
        after.value_name()
    )))
}
