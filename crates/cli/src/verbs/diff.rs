//! `flamelet diff`: what changed between two profiles, or two sides of several runs each.

use clap::ValueHint;
use flamelet_profile::{Profile, unit};
use flamelet_report::diff::{Comparison, Diff, Run, diff};
use flamelet_report::{Report, ReportKind, ReportOptions, Sort};
use flamelet_symbol::owner::Owners;

use crate::arguments::compare::ComparedArgs;
use crate::arguments::guide::Guide;
use crate::arguments::options::{self, Takes};
use crate::error::{Failure, Result};
use crate::job;
use crate::profiles::SourceOptions;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pair: PairArgs<options::Diff>,
}

/// Two profiles, or two sides of several runs each.
#[derive(clap::Args)]
pub(crate) struct PairArgs<T: Takes> {
    /// The old profile
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath, required_unless_present = "base_runs")]
    before: Option<String>,
    /// The new profile
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath, required_unless_present = "new_runs")]
    after: Option<String>,
    /// The old runs; several show how much runs differ
    #[arg(long = "base", value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath,
          requires = "new_runs", conflicts_with_all = ["before", "after"], help_heading = "Runs")]
    base_runs: Vec<String>,
    /// The new runs
    #[arg(long = "new", value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath,
          requires = "base_runs", help_heading = "Runs")]
    new_runs: Vec<String>,
    #[command(flatten)]
    pub(crate) compared: ComparedArgs<T>,
    /// Scale every profile to the total of the old ones
    #[arg(long, help_heading = "Values")]
    normalize: bool,
}

impl<T: Takes> PairArgs<T> {
    /// Returns the files of each side.
    fn sides(&self) -> [Vec<String>; 2] {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => [vec![before.clone()], vec![after.clone()]],
            _ => [self.base_runs.clone(), self.new_runs.clone()],
        }
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what changed between two profiles, and whether it is more than noise",
        examples: &[
            ("flamelet diff before.pb.gz after.pb.gz", "by flat cost: the functions alone"),
            ("flamelet diff before.pb.gz after.pb.gz --cum", "by cumulative cost: with everything they call"),
            ("flamelet diff before.pb.gz after.pb.gz --normalize", "for runs of different length"),
            (
                "flamelet diff --base a1.pb.gz a2.pb.gz a3.pb.gz --new b1.pb.gz b2.pb.gz b3.pb.gz",
                "several runs a side: smaller changes can be told from noise",
            ),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let answer = compare(&args.pair, Comparison::default())?;
    let compared = &args.pair.compared;
    let count = compared.options.options.node_count.unwrap_or(ReportKind::Diff.usual_node_count());
    compared.write(|is_json, mut out| match is_json {
        true => job::write_json(&answer, out),
        false => Ok(answer.write_text(&mut out, count)?),
    })
}

/// Opens all profiles and compares the sides.
pub(crate) fn compare<T: Takes>(args: &PairArgs<T>, comparison: Comparison) -> Result<Diff> {
    let options = &args.compared.options.options;
    let [base, new] = args.sides();
    let source = args.compared.read.options([&base[..], &new[..]].concat());
    source.note_unused();
    let (base, new) = (runs(args, &source, &base)?, runs(args, &source, &new)?);
    compare_runs(&base, &new, options, Comparison { normalize: args.normalize, ..comparison })
}

/// Compares the runs of two sides.
pub(crate) fn compare_runs(
    base: &[Run],
    new: &[Run],
    options: &ReportOptions,
    comparison: Comparison,
) -> Result<Diff> {
    if let Some(first) = base.first() {
        base.iter().chain(new).try_for_each(|run| check_same_kind(first.report(), run.report()))?;
    }
    let by_cum = options.sort == Sort::Cum;
    Ok(diff(base, new, &Comparison { by_cum, ..comparison }))
}

fn runs<T: Takes>(args: &PairArgs<T>, source: &SourceOptions, files: &[String]) -> Result<Vec<Run>> {
    let options = &args.compared.options.options;
    let mut runs = Vec::new();
    for file in files {
        let mut notes = Vec::new();
        let profile = source.open_one(file, &mut notes)?;
        notes.iter().for_each(|note| note!("{note}"));
        runs.push(run_of(profile, options, T::REPORT)?);
    }
    Ok(runs)
}

/// Returns a profile as one run of a side.
pub(crate) fn run_of(profile: Profile, options: &ReportOptions, kind: ReportKind) -> Result<Run> {
    // Before filters and grouping take the paths of functions away.
    let owners = Owners::of(&profile, |_, _| false);
    let run = Run::new(profile, owners, |profile| Report::new(profile, options, kind))?;
    run.report().warnings.iter().for_each(|warning| note!("{warning}"));
    Ok(run)
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
