//! A range of time of a service's history, from its folder.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flamelet_profile::{Budget, Limits, Profile, moment};
use flamelet_store::{Query, Reader, is_history};

use crate::error::{About, Failure, Result};

/// The kind of windows that reports are about.
const CPU: &str = "cpu";

/// From when to when, in nanoseconds since 1970.
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

/// Returns the present moment.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a moment from the command line.
pub(crate) fn parse_moment(text: &str) -> std::result::Result<i64, String> {
    moment::parse(text, now()).map_err(|error| error.to_string())
}

/// Returns the folder of a history that `source` names, and its range: `FOLDER`, or `FOLDER?from=-2h&to=-1h`, which
/// wins over `range`.
pub(crate) fn history_of(source: &str, range: Range) -> Option<Result<(&Path, Range)>> {
    if is_history(Path::new(source)) {
        return Some(Ok((Path::new(source), range)));
    }
    let (folder, query) = source.rsplit_once('?')?;
    let is_there = is_history(Path::new(folder));
    is_there.then(|| Ok((Path::new(folder), range_of_query(source, query)?)))
}

fn range_of_query(source: &str, query: &str) -> Result<Range> {
    let mut range = Range::default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let into = match name {
            "from" => &mut range.from,
            "to" => &mut range.to,
            _ => return Err(Failure::new(format!("{source}: '{name}' is not from or to"))),
        };
        *into = Some(moment::parse(value, now()).about(source)?);
    }
    Ok(range)
}

/// Reads the range of a history, with the names that it keeps.
pub(crate) fn open(folder: &Path, range: Range, limits: Limits, notes: &mut Vec<String>) -> Result<Profile> {
    let name = folder.display();
    let (from, to) = (range.from.unwrap_or(i64::MIN), range.to.unwrap_or(i64::MAX));
    let is_empty = from >= to || from >= now();
    if is_empty {
        let (from, to) = (moment::format(from), moment::format(to.min(now())));
        return Err(Failure::new(format!(
            "{name}: the range is empty: it begins at {from} and ends at {to}"
        )));
    }
    let budget = Budget::new(limits);
    let reader = Reader::open(folder)?;
    let (profile, skipped) = reader.profile(&Query::new(CPU, from, to), &budget).about(&name)?;
    notes.extend(skipped.notes().into_iter().map(|note| format!("{name}: {note}")));
    let Some(mut profile) = profile else { return Err(nothing(&reader, folder, range)) };
    reader.add_names(&mut profile, &budget).about(&name)?;
    Ok(profile)
}

/// Returns the failure of a range without windows, which says what there is.
fn nothing(reader: &Reader, folder: &Path, range: Range) -> Failure {
    let name = folder.display();
    match reader.span(&Budget::new(Limits::PERSON)) {
        Ok(Some((first, last))) => {
            let shown = |moment: Option<i64>| moment.map_or("any time".to_owned(), moment::format);
            let (from, to) = (shown(range.from), shown(range.to.or_else(|| Some(now()))));
            let (first, last) = (moment::format(first), moment::format(last));
            Failure::new(format!(
                "{name}: no window between {from} and {to}; the history covers {first} to {last}"
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
    fn a_source_can_have_a_range_of_its_own() {
        let range = range_of_query("x", "from=100&to=200").expect("read");
        assert_eq!(range, Range { from: Some(100_000_000_000), to: Some(200_000_000_000) });
        assert!(range_of_query("x", "since=1").is_err() && range_of_query("x", "from=soon").is_err());
        assert!(history_of("/nowhere?from=-1h", Range::default()).is_none());
    }
}
