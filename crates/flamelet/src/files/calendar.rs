//! Timestamps in file names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns `time` in UTC as `20261115T032326.042Z`, a form that sorts chronologically.
pub(super) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millis:03}Z")
}

/// Reads a time that [`stamp`] wrote, by which our files are recognised.
pub(super) fn parse(stamp: &str) -> Option<SystemTime> {
    let bytes = stamp.as_bytes();
    let is_ours = bytes.len() == 20 && bytes[8] == b'T' && bytes[15] == b'.' && bytes[19] == b'Z';
    let number = |from: usize, to: usize| stamp.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !is_ours || year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds) + Duration::from_millis(number(16, 19)?))
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the year, month and day that is `days` days after 1 January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let mut month = 1;
    while days >= days_of(year, month) {
        days -= days_of(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    years + (1..month).map(|month| days_of(year, month)).sum::<u64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        // As `date -u -d @SECONDS` prints them.
        for (seconds, expected) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_709_251_199, "20240229T235959.000Z"),
            (1_794_712_406, "20261115T031326.000Z"),
            (4_107_542_400, "21000301T000000.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(stamp(time), expected);
            assert_eq!(parse(expected), Some(time));
        }
        let time = UNIX_EPOCH + Duration::from_millis(1_794_712_406_042);
        assert_eq!(parse(&stamp(time)), Some(time));
        for other in ["", "2026", "20261315T000000.000Z", "20261115T0326460000Z", "2026111 T032646.000Z"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
