//! A range of time of a service's history, from its folder.

use std::collections::BTreeSet;
use std::path::Path;

pub(crate) use flamelet_profile::moment::now;
use flamelet_profile::{Budget, Limits, Profile, moment};
use flamelet_store::{Query, Reader, is_history};

use crate::error::{About, Failure, Result};

/// The kind of windows that reports are about, unless the source says another.
const CPU: &str = "cpu";

/// A range of time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
}

impl Range {
    pub(crate) fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the range of the same length right before this one.
    pub(crate) fn before(&self) -> Option<Self> {
        let (from, to) = (self.from?, self.to.unwrap_or_else(now));
        let length = to.checked_sub(from).filter(|&length| length > 0)?;
        Some(Self { from: Some(from.saturating_sub(length)), to: Some(from) })
    }
}

/// Reads a moment from the command line.
pub(crate) fn parse_moment(text: &str) -> std::result::Result<i64, String> {
    moment::parse(text, now()).map_err(|error| error.to_string())
}

/// A part of a history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HistoryPart<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) range: Range,
    /// The kind of windows: cpu, heap, allocs, block, mutex, await or blocked.
    kind: &'a str,
    /// Which series of a collector's store: a selector, perhaps with the escapes of URLs.
    pub(crate) select: Option<&'a str>,
}

impl HistoryPart<'_> {
    /// Returns the kind of windows.
    pub(crate) fn kind(&self) -> &str {
        self.kind
    }

    /// Returns the same of another range.
    pub(crate) fn within(&self, range: Range) -> Self {
        Self { range, ..*self }
    }
}

/// Returns the part of a history that `source` names.
pub(crate) fn history_of(source: &str, range: Range) -> Option<Result<HistoryPart<'_>>> {
    let part = past_of(source, range, is_history)?;
    Some(part.and_then(|part| match part.select {
        None => Ok(part),
        Some(_) => {
            Err(Failure::new(format!("{source}: 'select' is for the folder or bucket of flamelet collect")))
        }
    }))
}

/// Returns the part that `source` names of a folder of the right kind: `FOLDER`, or
/// `FOLDER?from=-2h&to=-1h&kind=heap`, which wins over `range`, or `FOLDER?select={version="2"}`.
pub(crate) fn past_of(
    source: &str,
    range: Range,
    is_past: fn(&Path) -> bool,
) -> Option<Result<HistoryPart<'_>>> {
    if is_past(Path::new(source)) {
        return Some(Ok(HistoryPart { folder: Path::new(source), range, kind: CPU, select: None }));
    }
    // A selector may have such a mark, too.
    let mut parts = source.match_indices('?').map(|(at, _)| (Path::new(&source[..at]), &source[at + 1..]));
    let (folder, query) = parts.find(|(folder, _)| is_past(folder))?;
    Some(part_of(source, folder, query, range))
}

fn part_of<'a>(source: &str, folder: &'a Path, query: &'a str, range: Range) -> Result<HistoryPart<'a>> {
    let (mut own, mut kind, mut select) = (Range::default(), CPU, None);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let into = match name {
            "from" => &mut own.from,
            "to" => &mut own.to,
            "kind" => {
                kind = value;
                continue;
            }
            "select" => {
                select = Some(value);
                continue;
            }
            _ => return Err(Failure::new(format!("{source}: '{name}' is not from, to, kind or select"))),
        };
        *into = Some(moment::parse(value, now()).about(source)?);
    }
    Ok(HistoryPart { folder, range: if own.is_given() { own } else { range }, kind, select })
}

/// Reads a part of a history, with the names that it keeps.
pub(crate) fn open(part: &HistoryPart<'_>, limits: Limits, notes: &mut Vec<String>) -> Result<Profile> {
    let HistoryPart { folder, range, .. } = *part;
    let name = folder.display();
    let (from, to) = (range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX));
    moment::range(from, to.min(now())).about(&name)?;
    let known = notes.len();
    let found = slice(part, limits, notes)?;
    found.map_or_else(
        || {
            // Why there is nothing, perhaps.
            notes.drain(known..).for_each(|note| note!("{note}"));
            Err(nothing(&Reader::open(folder)?, part))
        },
        Ok,
    )
}

/// Reads the range of a history, with the names that it keeps; `None` if it has no window.
pub(crate) fn slice(
    part: &HistoryPart<'_>,
    limits: Limits,
    notes: &mut Vec<String>,
) -> Result<Option<Profile>> {
    let HistoryPart { folder, range, kind, .. } = *part;
    let (name, budget) = (folder.display(), Budget::new(limits));
    let (from, to) = (range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX));
    let reader = Reader::open(folder)?;
    let (profile, skipped) = reader.range(&Query::new(kind, from, to), &budget).about(&name)?;
    notes.extend(skipped.notes().into_iter().map(|note| format!("{name}: {note}")));
    let Some(mut profile) = profile else { return Ok(None) };
    reader.add_names(&mut profile, &budget).about(&name)?;
    Ok(Some(profile))
}

/// Returns the beginnings of the stretches of time, all of this length, in which windows of the range have values. Fails if the
/// range has no window.
pub(crate) fn stretches(part: &HistoryPart<'_>, length: i64, limits: Limits) -> Result<BTreeSet<i64>> {
    let HistoryPart { folder, range, kind, .. } = *part;
    let (reader, budget) = (Reader::open(folder)?, Budget::new(limits));
    let query = Query::new(kind, range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX));
    let mut found = BTreeSet::new();
    let mut each = |time: i64, _: &[(&str, &str)], _: &[i64]| {
        found.insert(stretch_of(time, length));
    };
    reader.totals(&query, &budget, &mut each).about(folder.display())?;
    if found.is_empty() {
        let kinds = reader.kinds(&query, &budget).about(folder.display())?;
        // Windows without a value need no request.
        kinds.iter().find(|found| found.name == kind).ok_or_else(|| nothing(&reader, part))?;
    }
    Ok(found)
}

/// Returns when the stretch of this length begins that a time is in. A damaged file may have any time.
fn stretch_of(time: i64, length: i64) -> i64 {
    time.div_euclid(length).saturating_mul(length)
}

/// Returns the other kinds of windows in the range.
pub(crate) fn other_kinds(part: &HistoryPart<'_>, limits: Limits) -> Result<Vec<String>> {
    let HistoryPart { folder, range, kind, .. } = *part;
    let (from, to) = (range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX));
    let found = Reader::open(folder)?.kinds(&Query::new("", from, to), &Budget::new(limits));
    let mut names: Vec<String> = found
        .about(folder.display())?
        .into_iter()
        .map(|found| found.name)
        .filter(|name| name != kind)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the failure of a range without windows, which says what there is.
fn nothing(reader: &Reader, part: &HistoryPart<'_>) -> Failure {
    let HistoryPart { folder, range, kind, .. } = part;
    let name = folder.display();
    match reader.span(&Budget::new(Limits::PERSON)) {
        Ok(Some((first, last))) => {
            let shown = |moment: Option<i64>| moment.map_or("any time".to_owned(), moment::format);
            let (from, to) = (shown(range.from), shown(range.to.or_else(|| Some(now()))));
            let (first, last) = (moment::format(first), moment::format(last));
            Failure::new(format!(
                "{name}: no {kind} window between {from} and {to}; the history covers {first} to {last}"
            ))
        }
        Ok(None) => Failure::new(format!("{name}: the history has no window yet")),
        Err(error) => Failure::new(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_before_has_the_same_length() {
        let range = Range { from: Some(100), to: Some(160) };
        assert_eq!(range.before(), Some(Range { from: Some(40), to: Some(100) }));
        assert_eq!(Range { from: Some(5), to: Some(5) }.before(), None);
        assert_eq!(Range::default().before(), None);
    }

    #[test]
    fn any_time_is_in_a_stretch() {
        assert_eq!([119, 120, -1, i64::MIN].map(|time| stretch_of(time, 60)), [60, 120, -60, i64::MIN]);
    }

    #[test]
    fn a_source_can_have_a_range_of_its_own() {
        let given = Range { from: Some(7), to: None };
        let part = |query| part_of("x", Path::new("x"), query, given);
        let range = Range { from: Some(100_000_000_000), to: Some(200_000_000_000) };
        assert_eq!(
            part("from=100&to=200").expect("read"),
            HistoryPart { folder: Path::new("x"), range, kind: CPU, select: None }
        );
        let heap = part("kind=heap").expect("read");
        assert_eq!((heap.range, heap.kind), (given, "heap"));
        let selected = part("select={a=~\"b?\"}&to=200").expect("read");
        assert_eq!((selected.select, selected.range.to), (Some("{a=~\"b?\"}"), range.to));
        assert!(part("since=1").is_err() && part("from=soon").is_err());
        assert!(history_of("/nowhere?from=-1h", Range::default()).is_none());
    }
}
