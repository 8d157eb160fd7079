//! Answers that depend on whose code a function is.

use std::io::Write;
use std::path::{Path, PathBuf};

use flamelet_profile::{MappingId, Profile};
use flamelet_report::by::{Grouping, by};
use flamelet_report::explain::{OVERFLOW_CHECKS, explain};
use flamelet_report::{Mine, Report};
use flamelet_symbol::buildid::{self, BuildId};
use flamelet_symbol::inspect::has_overflow_checks;
use flamelet_symbol::owner::Owners;

use super::{Repeat, write_json};
use crate::error::Result;
use crate::profiles::SymbolOptions;

pub(super) const EMPTY: &str = "the profile is empty: nothing was sampled";

pub(super) fn write_groups(
    report: &Report,
    grouping: Grouping,
    mine: &[String],
    json: bool,
    mut out: &mut dyn Write,
) -> Result<()> {
    let groups = by(report, grouping, &owners_of(report, mine)?);
    if json { write_json(&groups, out) } else { Ok(groups.write_text(report, &mut out)?) }
}

pub(super) fn write_explanation(
    report: &Report,
    mine: &[String],
    repeat: &Repeat,
    json: bool,
    mut out: &mut dyn Write,
) -> Result<()> {
    let mut explanation = explain(report, &owners_of(report, mine)?);
    explanation.complete_commands(|closer| repeat.words(closer));
    if json { write_json(&explanation, out) } else { Ok(explanation.write_text(&mut out)?) }
}

/// Notes in the profile what only the binary of its program says about how it was built, if it is on this machine.
pub(super) fn note_build(profile: &mut Profile, symbols: &SymbolOptions) {
    if symbols.skip {
        return;
    }
    let owners = Owners::of(profile, |_, _| false);
    let mappings = profile
        .mappings()
        .iter()
        .enumerate()
        .filter(|(row, _)| owners.of_mapping(Some(MappingId::from_index(*row))).is_yours());
    let checks_overflow = mappings.into_iter().any(|(_, mapping)| {
        let (file, build_id) = (profile.string(mapping.filename), profile.string(mapping.build_id));
        let files = std::iter::once(Path::new(file)).chain(symbols.binaries.iter().map(PathBuf::as_path));
        // Another build may be at the same place by now.
        let is_the_same = |path: &&Path| match buildid::of_file(path) {
            Ok(Some(found)) => BuildId::from_hex(build_id) == Some(found),
            Ok(None) => build_id.is_empty(),
            Err(_) => false,
        };
        files.into_iter().filter(is_the_same).any(|path| has_overflow_checks(path).unwrap_or(false))
    });
    if checks_overflow {
        profile.add_comment(OVERFLOW_CHECKS);
    }
}

/// Returns whose code each function of each report is; functions that match an expression of `mine` are yours.
pub(crate) fn owners(reports: &[&Report], mine: &[String]) -> Result<Vec<Owners>> {
    let mine = Mine::parse(mine)?;
    let (owners, unmatched): (Vec<Owners>, Vec<Vec<&str>>) =
        reports.iter().map(|report| mine.owners(report.profile())).unzip();
    if let Some(gap) = reports.iter().find_map(|report| gap(report.profile())) {
        note!("{gap}");
    }
    // Only what matches in none of the reports.
    let everywhere = |text: &&&str| unmatched.iter().all(|unmatched| unmatched.contains(text));
    for text in unmatched.first().into_iter().flatten().filter(everywhere) {
        note!("--mine '{text}' matches no function or file in this profile");
    }
    Ok(owners)
}

/// Returns what the profile lacks to say whose code it is, and what to do about it.
fn gap(profile: &Profile) -> Option<&'static str> {
    let used = profile.functions().iter();
    let (mut has_names, mut has_files) = (false, false);
    for function in used {
        has_names |= !function.name.is_empty();
        has_files |= !function.filename.is_empty();
    }
    match (profile.sample_count() > 0, has_names, has_files) {
        (false, ..) => Some(EMPTY),
        (true, false, _) => Some(
            "the profile has no function names, so only its binaries tell whose code it is; pass them with --binary FILE",
        ),
        (true, true, false) => Some(
            "the profile has no source paths, so only names tell whose code a function is; say what is yours with \
             --mine REGEX",
        ),
        (true, true, true) => None,
    }
}

fn owners_of(report: &Report, mine: &[String]) -> Result<Owners> {
    Ok(owners(&[report], mine)?.remove(0))
}
