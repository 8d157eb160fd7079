//! `flamelet diff`: what changed between two profiles.

use flamelet_report::diff::{Diff, diff};
use flamelet_report::{Command, Report, Sort};

use crate::args::DiffArgs;
use crate::error::Result;
use crate::{output, report_job};

pub(crate) fn run(args: &DiffArgs) -> Result<()> {
    let answer = compare(args)?;
    let limit = args.shape.report_options().node_count.unwrap_or(40);
    output::write(args.shape.output.as_deref(), |mut out| {
        if args.shape.json {
            return report_job::write_json(&answer, out);
        }
        Ok(answer.write_text(&mut out, limit)?)
    })
}

/// Opens both profiles and compares them.
pub(crate) fn compare(args: &DiffArgs) -> Result<Diff> {
    let options = args.shape.report_options();
    let source = args.shape.source_options(Vec::new());
    let mut notes = Vec::new();
    let before = source.open_one(&args.before, &mut notes)?;
    let mut after = source.open_one(&args.after, &mut notes)?;
    notes.iter().for_each(|note| eprintln!("{note}"));
    if source.normalize {
        after.normalize_to(&before)?;
    }
    let before = Report::new(before, &options, Command::Top)?;
    let after = Report::new(after, &options, Command::Top)?;
    after.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    Ok(diff(&before, &after, options.sort == Sort::Cum))
}
