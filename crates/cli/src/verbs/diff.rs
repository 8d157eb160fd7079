//! `flamelet diff`: what changed between two profiles.

use clap::ValueHint;
use flamelet_profile::unit;
use flamelet_report::diff::{Diff, diff};
use flamelet_report::{Report, ReportKind, Sort};

use crate::arguments::compare::ComparedArgs;
use crate::arguments::guide::Guide;
use crate::arguments::options::{self, Takes};
use crate::error::{Failure, Result};
use crate::job;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pair: PairArgs<options::Diff>,
}

/// Two profiles.
#[derive(clap::Args)]
pub(crate) struct PairArgs<T: Takes> {
    /// The old profile
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    before: String,
    /// The new profile
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    after: String,
    #[command(flatten)]
    pub(crate) compared: ComparedArgs<T>,
    /// Scale the new profile to the total of the old one
    #[arg(long, help_heading = "Values")]
    normalize: bool,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what changed between two profiles, and whether it is more than noise",
        examples: &[
            ("flamelet diff before.pb.gz after.pb.gz", "by flat cost: the functions alone"),
            ("flamelet diff before.pb.gz after.pb.gz --cum", "by cumulative cost: with everything they call"),
            ("flamelet diff before.pb.gz after.pb.gz --normalize", "for runs of different length"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let answer = compare(&args.pair)?;
    let compared = &args.pair.compared;
    let count = compared.options.options.node_count.unwrap_or(ReportKind::Diff.usual_node_count());
    compared.write(|is_json, mut out| match is_json {
        true => job::write_json(&answer, out),
        false => Ok(answer.write_text(&mut out, count)?),
    })
}

/// Opens both profiles and compares them.
pub(crate) fn compare<T: Takes>(args: &PairArgs<T>) -> Result<Diff> {
    let options = &args.compared.options.options;
    let source = args.compared.read.options(vec![args.before.clone(), args.after.clone()]);
    source.note_unused();
    let mut notes = Vec::new();
    let before = source.open_one(&args.before, &mut notes)?;
    let mut after = source.open_one(&args.after, &mut notes)?;
    notes.iter().for_each(|note| note!("{note}"));
    if args.normalize {
        after.normalize_to(&before)?;
    }
    let before = Report::new(before, options, T::REPORT)?;
    let after = Report::new(after, options, T::REPORT)?;
    after.warnings.iter().for_each(|warning| note!("{warning}"));
    check_same_kind(&before, &after)?;
    Ok(diff(&before, &after, options.sort == Sort::Cum))
}

/// Refuses profiles in different units: nanoseconds and bytes can be subtracted, but the result means nothing.
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
        common => format!("select a sample type that both have with -i: {}", common.join(", ")),
    };
    Err(Failure::new(format!(
        "cannot compare {} ({from}) with {} ({to}); {way_out}",
        before.value_name(),
        after.value_name()
    )))
}
