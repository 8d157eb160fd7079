//! A range of time of one service, from the folder of a collector or from a bucket.

use std::ops::Range;
use std::path::Path;

use flamelet_collect::{Query, Reader, Replayed, is_collected, profile_name};
use flamelet_profile::{Budget, Limits, Profile, moment};

use super::bucket;
use super::history::{Range as Span, now, past_of};
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

/// Returns the folder of a collector or the bucket that `source` names, and its range.
pub(crate) fn collected_of(source: &str, range: Span) -> Option<Result<(&Path, Span)>> {
    let is_ours = |path: &Path| is_collected(path) || path.to_str().is_some_and(bucket::is_url);
    past_of(source, range, is_ours).map(|part| part.map(|part| (part.folder, part.range)))
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
    folder: &Path,
    range: Span,
    which: &Which,
    limits: Limits,
    notes: &mut Vec<String>,
) -> Result<Profile> {
    let name = folder.display();
    let budget = Budget::new(limits);
    let reader = reader_of(folder)?;
    let service = service_of(&reader, which, &budget).about(&name)?;
    let Range { start: from, end: to } = moments(range).about(&name)?;
    let profile = profile_name(which.profile.as_deref().unwrap_or("cpu"));
    let (found, left_out) = reader.profile(&Query::new(&service, profile, from, to), &budget).about(&name)?;
    notes.extend(left_out);
    found.ok_or_else(|| nothing(&reader, &service, profile, range, &name.to_string()))
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
        0 => Err(nothing(&reader, &service, "", span, &name.to_string())),
        _ => Ok(count),
    }
}

/// Returns from when to when a range is.
fn moments(span: Span) -> Result<Range<i64>> {
    let (from, to) = (span.from.unwrap_or(i64::MIN), span.to.unwrap_or(i64::MAX));
    if from >= to {
        let (from, to) = (moment::format(from), moment::format(to));
        return Err(Failure::new(format!("the range is empty: it begins at {from} and ends at {to}")));
    }
    Ok(from..to)
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

/// Returns the failure of a range without profiles, which says what there is.
fn nothing(reader: &Reader, service: &str, profile: &str, range: Span, name: &str) -> Failure {
    let shown = |moment: Option<i64>| moment.map_or("any time".to_owned(), moment::format);
    let (from, to) = (shown(range.from), shown(range.to.or_else(|| Some(now()))));
    let all = Query::new(service, profile, i64::MIN, i64::MAX);
    let extent = reader.extent(&all, &Budget::new(Limits::PERSON)).ok().flatten();
    let there = extent.map(|(first, last)| {
        format!("; there are profiles from {} to {}", moment::format(first), moment::format(last))
    });
    let profile = if profile.is_empty() { String::new() } else { format!("{profile} ") };
    Failure::new(format!(
        "{name}: {service} has no {profile}profile between {from} and {to}{}",
        there.unwrap_or_default()
    ))
}
