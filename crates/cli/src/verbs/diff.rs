//! `flamelet diff`: what changed between two profiles.

use clap::ValueHint;
use flamelet_profile::unit;
use flamelet_report::diff::{Diff, diff};
use flamelet_report::{Command, Report, ReportOptions, Sort};

use crate::arguments::compare::{ComparedArgs, Destination};
use crate::arguments::guide::{Guide, entries_by_default};
use crate::arguments::shape::{CountArgs, MeaningArgs, SortArgs, shaped};
use crate::error::{Failure, Result};
use crate::profiles::SourceOptions;
use crate::{job, output};

/// How many rows are shown where nobody says how many.
const ROWS: usize = 40;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pair: PairArgs,
    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    sort: SortArgs,
}

impl Args {
    /// How rows are ordered and how many are shown.
    fn rows(&self) -> ReportOptions {
        shaped(&[&self.count, &self.sort])
    }
}

/// Two profiles.
#[derive(clap::Args)]
pub(crate) struct PairArgs {
    /// The profile before
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) before: String,
    /// The profile after
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) after: String,
    #[command(flatten)]
    compared: ComparedArgs,
    #[command(flatten)]
    meaning: MeaningArgs,
    /// Scale the profile after so that its total equals the one before
    #[arg(long, help_heading = "Values")]
    pub(crate) normalize: bool,
}

impl PairArgs {
    pub(crate) fn report_options(&self) -> ReportOptions {
        self.compared.report_options(&[&self.meaning])
    }

    pub(crate) fn source_options(&self) -> SourceOptions {
        self.compared.read.options(vec![self.before.clone(), self.after.clone()])
    }

    pub(crate) fn destination(&self) -> Destination {
        self.compared.destination()
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what changed between two profiles, and whether it is more than noise",
        examples: &[
            ("flamelet diff before.pb.gz after.pb.gz", "by functions' own cost"),
            ("flamelet diff before.pb.gz after.pb.gz --cum", "by cost with all they call"),
            ("flamelet diff before.pb.gz after.pb.gz --normalize", "shares, where one ran longer"),
        ],
        own_help: vec![entries_by_default(ROWS)],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = args.rows();
    let answer = compare(&args.pair, rows.sort)?;
    let destination = args.pair.destination();
    let path = destination.output.as_deref();
    match destination.json {
        true => output::write(path, |out| job::write_json(&answer, out)),
        false => {
            let count = rows.node_count.unwrap_or(ROWS);
            output::text::write(path, |mut out| Ok(answer.write_text(&mut out, count)?))
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
