//! The past of a service: how much it did over time, and profiles of any range.

use serde::Serialize;

use crate::Error;
use crate::taken::Taken;

/// The most points of a course: more would be narrower than a pixel.
pub(crate) const MOST_POINTS: usize = 2_000;

/// How much CPU time was used over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Course {
    /// When it begins, in milliseconds since 1970.
    pub from: i64,
    /// When it ends.
    pub to: i64,
    /// The CPU time of equal parts of that time, in nanoseconds.
    pub values: Vec<i64>,
}

impl Course {
    /// Returns the course of `values`, each with its time in milliseconds, from `from` to `to` in this many parts.
    pub fn new((from, to): (i64, i64), parts: usize, values: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut course = Self { from, to, values: vec![0; parts.clamp(1, MOST_POINTS)] };
        values.into_iter().for_each(|(time, value)| course.add(time, value));
        course
    }

    /// Adds a value at a time in milliseconds. One outside of the course is left out.
    pub fn add(&mut self, time: i64, value: i64) {
        let length = self.to.saturating_sub(self.from).max(1);
        let since = i128::from(time) - i128::from(self.from);
        let share = (since * self.values.len() as i128).div_euclid(i128::from(length));
        if let Some(sum) = usize::try_from(share).ok().and_then(|at| self.values.get_mut(at)) {
            *sum = sum.saturating_add(value);
        }
    }
}

/// A label that can be selected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelValues {
    /// The label.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Reads the past. The viewer has neither a store nor an HTTP client; its caller provides them.
pub trait Past: Send + Sync {
    /// Returns the whole course, in about this many parts.
    fn course(&self, parts: usize) -> Result<Course, Error>;

    /// Returns the profile between two moments, in milliseconds since 1970.
    fn range(&self, from: i64, to: i64) -> Result<Taken, Error>;

    /// Returns the profile between two moments of the series that a label selector matches, such as `{version="2"}`; an empty
    /// one matches all.
    fn selected(&self, from: i64, to: i64, select: &str) -> Result<Taken, Error> {
        match select {
            "" => self.range(from, to),
            _ => Err(Error::invalid("labels cannot be selected in this history")),
        }
    }

    /// Returns the labels that can be selected; none if that is not possible.
    fn labels(&self) -> Result<Vec<LabelValues>, Error> {
        Ok(Vec::new())
    }

    /// Returns the services to choose from; none if the past has one service.
    fn services(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Returns the past of one of these services.
    fn of_service(&self, service: &str) -> Option<Box<dyn Past + '_>> {
        let _ = service;
        None
    }
}

/// The id of a profile that is a range of the past: `range:FROM-TO`, in milliseconds since 1970, then perhaps a label selector in
/// braces, then perhaps `:SERVICE`. It says what to read, so a link with it works for anyone who sees the same past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeId {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Empty if all series are read; else in braces.
    pub(crate) select: String,
    /// Empty if the past has one service.
    pub(crate) service: String,
}

impl RangeId {
    /// Reads an id; `None` if it is one of another kind.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let rest = id.strip_prefix("range:")?;
        let end = rest.find([':', '{']).unwrap_or(rest.len());
        let (from, to) = rest[..end].split_once('-')?;
        let rest = &rest[end..];
        let (select, rest) = rest.split_at(selector_length(rest)?);
        let service = if rest.is_empty() { "" } else { rest.strip_prefix(':')? };
        let (select, service) = (select.to_owned(), service.to_owned());
        Some(Self { from: from.parse().ok()?, to: to.parse().ok()?, select, service })
    }
}

/// Returns the length of the selector in braces that a text begins with, 0 if it begins with none.
fn selector_length(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return Some(0);
    }
    let (mut quote, mut is_escaped) = (None, false);
    for (at, character) in text.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some('"') if character == '\\' => is_escaped = true,
            Some(open) if character == open => quote = None,
            None if matches!(character, '"' | '`') => quote = Some(character),
            None if character == '}' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

impl std::fmt::Display for RangeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, to, select, service } = self;
        let separator = if service.is_empty() { "" } else { ":" };
        write!(f, "range:{from}-{to}{select}{separator}{service}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_ranges_are_read_as_they_are_written() {
        for (id, select, service) in [
            ("range:5-10", "", ""),
            ("range:5-10:a:b/c", "", "a:b/c"),
            ("range:5-10:-1", "", "-1"),
            ("range:5-10:a{b}", "", "a{b}"),
            ("range:5-10{version=\"2\"}", "{version=\"2\"}", ""),
            ("range:5-10{version=\"2\"}:a{b}", "{version=\"2\"}", "a{b}"),
            ("range:5-10{a=\"}\\\"}:\", b=`}\\`}:c", "{a=\"}\\\"}:\", b=`}\\`}", "c"),
        ] {
            let read = RangeId::parse(id).expect(id);
            assert_eq!((read.from, read.to, &*read.select, &*read.service), (5, 10, select, service));
            assert_eq!(read.to_string(), id);
        }
        for id in [
            "",
            "3",
            "range",
            "range:",
            "range:5",
            "range:x-1",
            "range:-5-10",
            "a/range:5-10",
            "range:5-10{a",
            "range:5-10{a=\"}",
            "range:5-10{}a",
        ] {
            assert_eq!(RangeId::parse(id), None, "{id}");
        }
    }

    #[test]
    fn values_are_added_up_by_their_time() {
        let values = [(1000, 5), (1999, 6), (2000, 7), (999, 100), (3000, 100), (i64::MAX, 1), (i64::MIN, 1)];
        let course = Course::new((1000, 3000), 2, values);
        assert_eq!(course, Course { from: 1000, to: 3000, values: vec![11, 7] });
        assert_eq!(Course::new((5, 5), 0, [(5, 1)]).values, [1]);
        assert_eq!(Course::new((0, 10), usize::MAX, []).values.len(), MOST_POINTS);
    }
}
