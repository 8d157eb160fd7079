//! A range of time of one service, from the folder of a collector or from a bucket.

use std::ops::Range;
use std::path::Path;

use flamelet_collect::{Query, Reader, Replayed, is_collected, profile_name};
use flamelet_profile::{Budget, Limits, Profile, moment, percent};
use flamelet_remote::selector::Selector;

use super::bucket;
use super::history::{HistoryPart, Range as Span, now, past_of};
use crate::error::{About, Failure, Result};

/// Services that a message lists.
const MAX_SHOWN: usize = 20;

/// Which of the profiles in a collector's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Which {
    /// The service; may be left out if there is only one.
    pub(crate) service: Option<String>,
    /// `cpu`, `heap`, or Pyroscope's name of a profile.
    pub(crate) profile: Option<String>,
}

/// A part of what a collector keeps.
pub(crate) struct CollectedPart<'a> {
    /// The folder, or the URL of the bucket.
    pub(crate) folder: &'a Path,
    pub(crate) range: Span,
    /// Which series of it; all if it is `None`.
    pub(crate) select: Option<Selector>,
}

/// Returns the part of a collector's folder or of a bucket that `source` names: `DIR?select={version="2"}&from=-2h`.
pub(crate) fn part_of(source: &str, range: Span) -> Option<Result<CollectedPart<'_>>> {
    let is_ours = |path: &Path| is_collected(path) || path.to_str().is_some_and(bucket::is_url);
    let found = past_of(source, range, is_ours)?;
    Some(found.and_then(|HistoryPart { folder, range, select, .. }| {
        let select = select.map(|text| Selector::parse(&percent::decode_lossy(text)));
        Ok(CollectedPart { folder, range, select: select.transpose().about(source)? })
    }))
}

/// The same where all series are wanted.
pub(crate) fn collected_of(source: &str, range: Span) -> Option<Result<(&Path, Span)>> {
    Some(part_of(source, range)?.and_then(|part| match part.select {
        None => Ok((part.folder, part.range)),
        Some(_) => Err(Failure::new(format!("{source}: 'select' is for reports"))),
    }))
}

/// Opens the folder of a collector, or a bucket.
pub(crate) fn reader_of(folder: &Path) -> Result<Reader> {
    match folder.to_str().filter(|url| bucket::is_url(url)) {
        Some(url) => Ok(Reader::open_shared(bucket::Url::parse(url)?.open()?)?),
        None => Ok(Reader::open(folder)?),
    }
}

/// Reads the range of a service.
pub(crate) fn open(
    part: &CollectedPart<'_>,
    which: &Which,
    limits: Limits,
    notes: &mut Vec<String>,
) -> Result<Profile> {
    let CollectedPart { folder, range, ref select } = *part;
    let name = folder.display();
    let budget = Budget::new(limits);
    let reader = reader_of(folder)?;
    let service = service_of(&reader, which, &budget).about(&name)?;
    let Range { start: from, end: to } = moments(range).about(&name)?;
    let profile = profile_name(which.profile.as_deref().unwrap_or("cpu"));
    let query = Query { select: select.as_ref(), ..Query::new(&service, profile, from, to) };
    let (found, left_out) = reader.profile(&query, &budget).about(&name)?;
    let selected = if select.is_some() { " with these labels" } else { "" };
    let Some(found) = found else {
        // Why there is nothing, perhaps.
        left_out.iter().for_each(|note| note!("{note}"));
        return Err(nothing(&reader, (&service, selected), profile, range, &name.to_string()));
    };
    notes.extend(left_out);
    Ok(found)
}

/// Sends each profile of a range of a service somewhere, and returns how many there were.
pub(crate) fn replay(
    folder: &Path,
    span: Span,
    which: &Which,
    limits: Limits,
    send: &mut dyn FnMut(Replayed) -> Result<()>,
) -> Result<usize> {
    let name = folder.display();
    let reader = reader_of(folder)?;
    let service = service_of(&reader, which, &Budget::new(limits)).about(&name)?;
    let mut count = 0;
    let notes =
        flamelet_collect::replay(&reader, &service, moments(span).about(&name)?, limits, &mut |replayed| {
            count += 1;
            send(replayed)
        })?;
    notes.iter().for_each(|note| note!("{name}: {note}"));
    match count {
        0 => Err(nothing(&reader, (&service, ""), "", span, &name.to_string())),
        _ => Ok(count),
    }
}

/// Returns when a range begins and ends.
fn moments(span: Span) -> Result<Range<i64>> {
    Ok(moment::range(span.from.unwrap_or(i64::MIN), span.to.unwrap_or(i64::MAX))?)
}

pub(crate) fn service_of(reader: &Reader, which: &Which, budget: &Budget) -> Result<String> {
    let services = reader.services(budget)?;
    let shown = |services: &[String]| {
        let more = if services.len() > MAX_SHOWN { ", …" } else { "" };
        format!("{}{more}", services.iter().take(MAX_SHOWN).cloned().collect::<Vec<_>>().join(", "))
    };
    match (&which.service, &services[..]) {
        (Some(service), _) if services.contains(service) => Ok(service.clone()),
        (_, []) => Err(Failure::new("there are no profiles yet")),
        (Some(service), _) => {
            Err(Failure::new(format!("there is no service {service:?}; there are {}", shown(&services))))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Failure::new(format!("select a service with --service: {}", shown(&services)))),
    }
}

/// Returns the failure of a range without profiles, which says what there is. `selected` says that only some were wanted.
fn nothing(
    reader: &Reader,
    (service, selected): (&str, &str),
    profile: &str,
    range: Span,
    name: &str,
) -> Failure {
    let shown = |moment: Option<i64>| moment.map_or("any time".to_owned(), moment::format);
    let (from, to) = (shown(range.from), shown(range.to.or_else(|| Some(now()))));
    let all = Query::new(service, profile, i64::MIN, i64::MAX);
    let extent = reader.extent(&all, &Budget::new(Limits::PERSON)).ok().flatten();
    let there = match extent {
        Some((first, last)) => {
            format!("; there are profiles from {} to {}", moment::format(first), moment::format(last))
        }
        None => match reader.profile_names(&all, &Budget::new(Limits::PERSON)).unwrap_or_default() {
            names if names.is_empty() => String::new(),
            names => format!("; it has {} (--profile NAME)", names.join(", ")),
        },
    };
    let profile = if profile.is_empty() { String::new() } else { format!("{profile} ") };
    Failure::new(format!(
        "{name}: {service} has no {profile}profile{selected} between {from} and {to}{there}"
    ))
}
