//! Applies the page's filters to a profile.

use flamelet_report::fold::fold;
use flamelet_report::names::NameFolding;
use flamelet_report::profile::{Profile, merge};
use flamelet_report::stacks::DIFF_BASE_LABEL;
use flamelet_report::{FILTER, ReportOption, ReportOptions};

use crate::Error;
use crate::query::{Chip, ShapeKey};

/// Returns the difference of two profiles: both, with the base negated and labelled, as in pprof.
pub(crate) fn difference(new: &Profile, base: &Profile) -> Result<Profile, Error> {
    let mut base = base.clone();
    base.scale(-1.0);
    base.label_all(DIFF_BASE_LABEL, "true");
    merge(&[new, &base]).map_err(|error| Error::invalid(format!("cannot compare these profiles: {error}")))
}

/// Applies the options of `key`, with filters in the order in which they were added. Returns notes for the user too.
pub(crate) fn shape(mut profile: Profile, key: &ShapeKey) -> Result<(Profile, Vec<String>), Error> {
    let mut notes = Vec::new();
    if let Some(span) = &key.time {
        profile.keep_time(span.clone());
    }
    let has = |part: &str| key.fold.split(',').any(|other| other == part);
    let folding = NameFolding { generics: has("generics"), runtime: false, crates: has("crates") };
    fold(&mut profile, folding, None);
    for chip in &key.chips {
        apply(&mut profile, chip, &mut notes)?;
    }
    Ok((profile, notes))
}

fn apply(profile: &mut Profile, chip: &Chip, notes: &mut Vec<String>) -> Result<(), Error> {
    if chip.kind == "tagroot" {
        profile.add_tag_frames(&[&chip.text], &[], "auto");
        return Ok(());
    }
    let option = ReportOption::named(&chip.kind).filter(|option| option.section == FILTER);
    let option = option.ok_or_else(|| Error::invalid(format!("unknown filter '{}'", chip.kind)))?;
    let mut options = ReportOptions::default();
    option.set(&mut options, &chip.text).map_err(|error| Error::invalid(error.to_string()))?;
    let filter = options.filters;
    let filter = filter.compile().map_err(|error| Error::invalid(error.to_string()))?;
    let outcome = filter.apply(profile);
    notes.extend(outcome.notes);
    if !outcome.unmatched.is_empty() {
        notes.push(format!("{} matched nothing: {}", chip.kind, chip.text));
    }
    Ok(())
}
