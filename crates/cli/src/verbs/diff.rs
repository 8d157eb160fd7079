//! `flamelet diff`: what changed between two profiles, or two sides of several runs each.

use clap::ValueHint;
use flamelet_profile::{Granularity, Profile, unit};
use flamelet_report::diff::{Comparison, Diff, Run, diff};
use flamelet_report::explain::changes;
use flamelet_report::{Report, ReportKind, ReportOptions, Sort};
use flamelet_symbol::owner::Owners;

use crate::arguments::compare::ComparedArgs;
use crate::arguments::guide::Guide;
use crate::arguments::options::{self, Takes};
use crate::arguments::report::MineArgs;
use crate::error::{Failure, Result};
use crate::job;
use crate::profiles::SourceOptions;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pair: PairArgs<options::Diff>,
    /// Explain in sentences which of your functions changed by more than noise, and what makes up the change
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    mine: MineArgs,
}

/// Two profiles, or two sides of several runs each.
#[derive(clap::Args)]
pub(crate) struct PairArgs<T: Takes> {
    /// The old profile
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath, required_unless_present = "base_runs")]
    before: Option<String>,
    /// The new profile; for a history with --from, leave it out to compare the range with the one before it
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
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
    fn sides(&self) -> [Vec<String>; 2] {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => [vec![before.clone()], vec![after.clone()]],
            (Some(history), None) => [vec![history.clone()], vec![history.clone()]],
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
            ("flamelet diff before.pb.gz after.pb.gz --explain", "in sentences, by your functions"),
            ("flamelet diff before.pb.gz after.pb.gz --normalize", "for runs of different length"),
            (
                "flamelet diff --base a1.pb.gz a2.pb.gz a3.pb.gz --new b1.pb.gz b2.pb.gz b3.pb.gz",
                "several runs per side: smaller changes stand out from noise",
            ),
            (
                "flamelet diff /var/lib/my-service/history --from -1h",
                "the last hour of a history against the hour before",
            ),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.explain {
        return explain(args);
    }
    if !args.mine.mine.is_empty() {
        return Err(Failure::new("--mine needs --explain"));
    }
    let answer = compare(&args.pair, Comparison::default())?;
    let compared = &args.pair.compared;
    let count = compared.options.options.node_count.unwrap_or(ReportKind::Diff.usual_node_count());
    compared.write(|is_json, mut out| match is_json {
        true => job::write_json(&answer, out),
        false => Ok(answer.write_text(&mut out, count)?),
    })
}

fn explain(args: &Args) -> Result<()> {
    let (answer, [base, new]) = compare_profiles(&args.pair, Comparison::default())?;
    // Files of functions say what others' code does.
    let options =
        ReportOptions { granularity: Some(Granularity::Lines), ..args.pair.compared.options.options.clone() };
    let reports = |profiles: Vec<Profile>| -> Result<Vec<Report>> {
        let reports = profiles.into_iter().map(|profile| Report::new(profile, &options, ReportKind::Explain));
        Ok(reports.collect::<std::result::Result<_, _>>()?)
    };
    let (base, new) = (reports(base)?, reports(new)?);
    let owners = job::owners(&base.iter().chain(&new).collect::<Vec<_>>(), &args.mine.mine)?;
    let (of_base, of_new) = owners.split_at(base.len());
    let answer = changes(&answer, (&base, of_base), (&new, of_new));
    args.pair.compared.write(|is_json, mut out| match is_json {
        true => job::write_json(&answer, out),
        false => Ok(answer.write_text(&mut out)?),
    })
}

/// Opens all profiles and compares the sides.
pub(crate) fn compare<T: Takes>(args: &PairArgs<T>, comparison: Comparison) -> Result<Diff> {
    Ok(compare_profiles(args, comparison)?.0)
}

/// Returns the comparison, and the profiles of both sides as they were read.
fn compare_profiles<T: Takes>(
    args: &PairArgs<T>,
    comparison: Comparison,
) -> Result<(Diff, [Vec<Profile>; 2])> {
    let options = &args.compared.options.options;
    let [base, new] = args.sides();
    let source = args.compared.source([&base[..], &new[..]].concat());
    source.note_unused();
    let is_one_history = args.before.is_some() && args.after.is_none();
    let older = if is_one_history { right_before(&source)? } else { source.clone() };
    let (old_profiles, new_profiles) = (open(&older, &base)?, open(&source, &new)?);
    let (base, new) = (runs(args, &old_profiles)?, runs(args, &new_profiles)?);
    let comparison = Comparison { normalize: args.normalize, ..comparison };
    Ok((compare_runs(&base, &new, options, comparison)?, [old_profiles, new_profiles]))
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

fn open(source: &SourceOptions, files: &[String]) -> Result<Vec<Profile>> {
    let mut notes = Vec::new();
    let profiles = files.iter().map(|file| source.open_one(file, &mut notes)).collect();
    notes.iter().for_each(|note| note!("{note}"));
    profiles
}

fn runs<T: Takes>(args: &PairArgs<T>, profiles: &[Profile]) -> Result<Vec<Run>> {
    let options = &args.compared.options.options;
    let mut runs = Vec::new();
    for profile in profiles {
        let mut profile = profile.clone();
        profile.drop_uninteresting()?;
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

/// Returns where to read what was right before the range: as long as the range itself.
fn right_before(source: &SourceOptions) -> Result<SourceOptions> {
    let message = "name two profiles to compare, or a history and a range of it with --from";
    let range = source.range.before().ok_or_else(|| Failure::new(message))?;
    Ok(SourceOptions { range, ..source.clone() })
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
