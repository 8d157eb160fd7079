//! Moments as users write them, in nanoseconds since 1970.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, Result};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Returns the present moment.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a moment: RFC 3339 (`2026-11-15T03:00:00Z`; without a zone it is UTC), seconds since 1970 (also with a
/// fraction; 12 digits and more are milliseconds), `now`, or a time before now (`-2h`, `now-1h30m`).
pub fn parse(text: &str, now: i64) -> Result<i64> {
    let text = text.trim();
    let relative = text.strip_prefix("now").unwrap_or(text);
    let parsed = match relative.strip_prefix('-') {
        _ if text == "now" => Some(now),
        Some(span) => parse_span(span).map(|span| now.saturating_sub(span)),
        None => since_1970(text).or_else(|| rfc3339(text)),
    };
    parsed.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Error::invalid(format!(
            "{shown:?} is not a time: write it as 2026-11-15T03:00:00Z, as seconds since 1970, or as -2h"
        ))
    })
}

/// Reads a length of time: `90s`, `1h30m`, `2d`, `500ms`.
fn parse_span(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut nanos = 0i64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanos_of_unit = match unit {
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "d" => DAY * SECOND,
            "w" => 7 * DAY * SECOND,
            _ => return None,
        };
        let part = number.parse::<f64>().ok()? * nanos_of_unit as f64;
        nanos = nanos.checked_add((part < i64::MAX as f64).then_some(part as i64)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(nanos)
}

fn since_1970(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let number: i64 = whole.parse().ok()?;
    match whole.len() {
        // A year, as a person writes it, and not half an hour after 1970 began.
        4 if number >= 1970 => None,
        0..12 => number.checked_mul(SECOND)?.checked_add(nanos_of_fraction(fraction)),
        12..15 => number.checked_mul(1_000_000),
        _ => None,
    }
}

/// Reads the digits after a decimal point.
fn nanos_of_fraction(digits: &str) -> i64 {
    let digits = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'))
}

fn rfc3339(text: &str) -> Option<i64> {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, "00:00:00Z"),
    };
    let (time, offset) = zone(time)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    // Seconds may be left out.
    let [hour, minute, second] = match clock.len() {
        5 => numbers(clock, ':', [2, 2]).map(|[hour, minute]| [hour, minute, 0])?,
        _ => numbers(clock, ':', [2, 2, 2])?,
    };
    let days = days_since_1970(year, month, day);
    // A day that its month does not have is another day.
    let is_possible = date_of(days) == (year, month, day) && hour < 24 && minute < 60 && second <= 60;
    if !is_possible || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset;
    // Of a year that has no nanoseconds here, such as 9999, the nearest that has.
    Some(seconds.saturating_mul(SECOND).saturating_add(nanos_of_fraction(fraction)))
}

/// Splits off the zone, and returns how many seconds it is ahead of UTC.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    // In a URL, a plus that is not escaped stands for a space.
    let Some(at) = time.rfind(['+', '-', ' ']) else { return Some((time, 0)) };
    let [hours, minutes] = numbers(&time[at + 1..], ':', [2, 2])?;
    let seconds = hours * 3600 + minutes * 60;
    Some((&time[..at], if time[at..].starts_with('-') { -seconds } else { seconds }))
}

/// Reads numbers of fixed lengths.
fn numbers<const N: usize>(text: &str, separator: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, length) in numbers.iter_mut().zip(lengths) {
        let part =
            parts.next().filter(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Reads a length of time above 0, such as `30s`.
pub fn parse_length(text: &str) -> Option<Duration> {
    let nanos = parse_span(text).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.filter(|&nanos| nanos > 0).map(Duration::from_nanos)
}

/// Returns the range between two moments; fails if it is empty.
pub fn range(from: i64, to: i64) -> Result<Range<i64>> {
    if from < to {
        return Ok(from..to);
    }
    let (from, to) = (format(from), format(to));
    Err(Error::invalid(format!("the range is empty: it begins at {from} and ends at {to}")))
}

/// Writes a moment in UTC, to the second: `2026-11-15T03:00:00Z`.
pub fn format(nanos: i64) -> String {
    let seconds = nanos.div_euclid(SECOND);
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the day of a date of the Gregorian calendar, counted from 1 January 1970.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day that is `days` days after 1 January 1970.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_794_712_406 * SECOND;

    #[test]
    fn every_form_of_one_moment() {
        // As `date -u -d 2026-11-15T03:13:26Z +%s` prints it.
        for text in [
            "now",
            "2026-11-15T03:13:26Z",
            "2026-11-15T04:13:26+01:00",
            "2026-11-15T04:13:26 01:00",
            "2026-11-14T21:43:26-05:30",
            "2026-11-15 03:13:26",
            "2026-11-15t03:13:26.000z",
            "1794712406",
            "1794712406.0",
            "1794712406000",
        ] {
            assert_eq!(parse(text, NOW).expect(text), NOW, "{text}");
        }
        for (text, seconds) in [
            ("-2h", 7200),
            ("now-2h", 7200),
            ("-1h30m", 5400),
            ("-1.5h", 5400),
            ("-90s", 90),
            ("-1d", 86_400),
            ("-1w", 604_800),
            ("2026-11-15T03:13", 26),
            ("2026-11-15", 3 * 3600 + 13 * 60 + 26),
        ] {
            assert_eq!(parse(text, NOW).expect(text), NOW - seconds * SECOND, "{text}");
        }
        assert_eq!(parse("1794712406.25", 0).expect("read"), NOW + SECOND / 4);
        assert_eq!(parse("1970-01-01", 0).expect("read"), 0);
        assert_eq!(parse("1969-12-31T23:59:59Z", 0).expect("read"), -SECOND);
        assert_eq!(parse("9999-12-31", 0).expect("read"), i64::MAX);
        assert_eq!(parse("0001-01-01T00:00:00Z", 0).expect("read"), i64::MIN);
    }

    #[test]
    fn other_texts_are_no_moments() {
        for text in [
            "",
            "-",
            "now-",
            "yesterday",
            "-2",
            "-2x",
            "2h",
            "-h",
            "--2h",
            "2026",
            "2026-13-01",
            "2026-00-10",
            "2026-02-30",
            "2026-04-31",
            "2026-02-29",
            "2026-1-1",
            "2026-11-15T25:00:00Z",
            "2026-11-15T03:13:26+1",
            "2026-11-15TT",
            "1e9",
            "1.2.3",
            "+5",
            "999999999999999999999",
            "-99999999999999999999w",
            "2026-11-15T03:13:26.xZ",
            "\u{1f600}",
            "٣",
        ] {
            let error = parse(text, NOW).expect_err(text);
            assert!(!error.to_string().contains('\n'), "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(format(seconds * SECOND), expected);
            assert_eq!(parse(expected, 0).expect(expected), seconds * SECOND);
        }
        for day in (-200_000..200_000).step_by(37) {
            let (year, month, date) = date_of(day);
            assert_eq!(days_since_1970(year, month, date), day);
        }
    }

    #[test]
    fn a_range_has_a_beginning_before_its_end() {
        assert_eq!(range(0, SECOND).expect("a second"), 0..SECOND);
        let error = range(SECOND, SECOND).expect_err("it is empty").to_string();
        let expected =
            "the range is empty: it begins at 1970-01-01T00:00:01Z and ends at 1970-01-01T00:00:01Z";
        assert_eq!(error, expected);
    }
}
