//! Compares two ranges of a service, or two values of a label.

use flamelet_profile::{Budget, Error, Limits, Profile, Result, unit};
use flamelet_remote::selector::Selector;
use flamelet_report::diff::{Comparison, Diff, Run, diff};
use flamelet_report::{Owners, Report, ReportKind, ReportOptions};
use serde::Serialize;

use crate::query::Query;
use crate::reader::Reader;

pub(super) struct Wanted<'a> {
    pub(super) service: &'a str,
    /// Pyroscope's name of the profile.
    pub(super) profile: &'a str,
    /// Which of its values, such as `cpu`; the usual one if it is empty.
    pub(super) value: &'a str,
    pub(super) base: DiffSide,
    pub(super) new: DiffSide,
    /// Whether both are scaled to the same total.
    pub(super) is_normalized: bool,
    /// The most functions to return.
    pub(super) rows: usize,
    /// What may be used for each side.
    pub(super) limits: Limits,
}

/// One side of a comparison.
pub(super) struct DiffSide {
    /// The start of its range, in nanoseconds since 1970.
    pub(super) from: i64,
    /// Its end.
    pub(super) to: i64,
    /// The selector of its series, as the question has it, and parsed.
    pub(super) select: String,
    pub(super) selector: Selector,
}

/// The answer. Its JSON form is stable.
#[derive(Serialize)]
pub(super) struct Compared {
    service: String,
    profile: String,
    base: SideShown,
    new: SideShown,
    #[serde(flatten)]
    diff: Diff,
    /// Notes on what was left out.
    notes: Vec<String>,
}

/// The range in which a side has profiles.
#[derive(Serialize)]
struct SideShown {
    #[serde(serialize_with = "super::json::as_moment")]
    from: i64,
    #[serde(serialize_with = "super::json::as_moment")]
    to: i64,
    select: String,
}

/// Compares two sides; the kind of the error is `NotFound` if there is nothing of one.
pub(super) fn compared(reader: &Reader, wanted: &Wanted<'_>) -> Result<Compared> {
    let mut notes = Vec::new();
    let (base, base_shown) = run(reader, wanted, &wanted.base, &mut notes)?;
    let (new, new_shown) = run(reader, wanted, &wanted.new, &mut notes)?;
    let (one, other) = (base.report(), new.report());
    if one.value_name() != other.value_name() || unit::ratio(one.unit(), other.unit()) != 1.0 {
        return Err(Error::invalid("the two sides do not have the same type; choose one with type"));
    }
    let comparison = Comparison { normalize: wanted.is_normalized, ..Comparison::default() };
    let mut diff = diff(&[base], &[new], &comparison);
    diff.rows.truncate(wanted.rows);
    Ok(Compared {
        service: wanted.service.to_owned(),
        profile: wanted.profile.to_owned(),
        base: base_shown,
        new: new_shown,
        diff,
        notes,
    })
}

fn run(
    reader: &Reader,
    wanted: &Wanted<'_>,
    side: &DiffSide,
    notes: &mut Vec<String>,
) -> Result<(Run, SideShown)> {
    let query = Query {
        select: Some(&side.selector),
        ..Query::new(wanted.service, wanted.profile, side.from, side.to)
    };
    let (profile, left_out) = reader.profile(&query, &Budget::new(wanted.limits))?;
    notes.extend(left_out);
    let nothing = || {
        let DiffSide { select, .. } = side;
        let what = format!("{} of {}{select}", wanted.profile, wanted.service);
        let (from, to) = (flamelet_profile::moment::format(side.from), shown_end(side.to));
        Error::not_found(format!("there is no profile {what} from {from} to {to}"))
    };
    let mut profile: Profile = profile.ok_or_else(nothing)?;
    let from = profile.header.time_nanos;
    let to = from.saturating_add(profile.header.duration_nanos);
    profile.drop_uninteresting()?;
    let options = ReportOptions { sample_index: wanted.value.to_owned(), ..ReportOptions::default() };
    // Before grouping takes the paths of functions away.
    let owners = Owners::of(&profile, |_, _| false);
    let run = Run::new(profile, owners, |profile| Report::new(profile, &options, ReportKind::Diff))?;
    Ok((run, SideShown { from, to, select: side.select.clone() }))
}

fn shown_end(to: i64) -> String {
    if to == i64::MAX { "now".to_owned() } else { flamelet_profile::moment::format(to) }
}
