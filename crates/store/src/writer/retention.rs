//! Which segments to remove.
//!
//! Segments are numbered in the order in which they were written, so a clock that jumps cannot reorder them. The age
//! of a segment is the sum of the gaps between those written since, and each gap counts as at most an eighth of the
//! whole age: a clock that jumps forward, or a month without the service, does not make everything old at once.

use std::time::Duration;

use crate::writer::options::Options;

/// A finished segment, or the one that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    /// The end of its last window, in seconds since 1970; `None` if that is not known yet.
    pub(crate) end: Option<i64>,
    pub(crate) bytes: u64,
}

/// Returns the number of the first segment to keep. `segments` are sorted by number; `others` is what the folder
/// holds besides.
pub(crate) fn first_kept(segments: &[Kept], others: u64, now: i64, options: &Options) -> u64 {
    let longest = longest_gap(options);
    let (mut age, mut later, mut bytes) = (Duration::ZERO, now, others);
    let mut first = segments.last().map_or(0, |newest| newest.number);
    for (at, segment) in segments.iter().rev().enumerate() {
        let end = segment.end.unwrap_or(later);
        let gap = Duration::from_secs(u64::try_from(later.saturating_sub(end)).unwrap_or(0));
        age = age.saturating_add(gap.min(longest));
        later = end;
        bytes = bytes.saturating_add(segment.bytes);
        if at > 0 && (age > options.age || bytes > options.bytes) {
            break;
        }
        first = segment.number;
    }
    first
}

fn longest_gap(options: &Options) -> Duration {
    (options.age / 8).max(options.longest_segment().saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    const NOW: i64 = 20_000 * DAY;

    /// Segments of an hour each, the last of which ends at `end`.
    fn hours(count: i64, end: i64) -> Vec<Kept> {
        let segment =
            |at: i64| Kept { number: at as u64, end: Some(end - (count - 1 - at) * HOUR), bytes: 1000 };
        (0..count).map(segment).collect()
    }

    fn kept(segments: &[Kept], now: i64, options: &Options) -> usize {
        let first = first_kept(segments, 0, now, options);
        segments.iter().filter(|segment| segment.number >= first).count()
    }

    #[test]
    fn the_oldest_go_first_by_age_and_by_size() {
        let all = hours(10 * 24, NOW);
        assert_eq!(kept(&all, NOW, &Options::default()), 7 * 24 + 1);
        let small = Options { bytes: 64 << 10, ..Options::default() };
        assert_eq!(kept(&all, NOW, &small), 65);
        assert_eq!(first_kept(&all, 64 << 10, NOW, &small), 239, "the newest stays");
        assert_eq!(first_kept(&[], 0, NOW, &small), 0);
    }

    #[test]
    fn a_clock_that_jumps_removes_little() {
        let mut all = hours(6 * 24, NOW);
        for now in [NOW + 8 * DAY, NOW + 30 * DAY, NOW + 20 * 365 * DAY, NOW - 3 * DAY, 0] {
            assert_eq!(kept(&all, now, &Options::default()), 6 * 24, "{now}");
        }
        // Also once segments were written after the jump, and after the clock was set right again.
        for (number, end) in [(144, NOW + 300 * DAY), (145, NOW + 300 * DAY + HOUR), (146, NOW + HOUR)] {
            all.push(Kept { number, end: Some(end), bytes: 1 });
            assert_eq!(kept(&all, end, &Options::default()), all.len(), "{number}");
        }
    }

    #[test]
    fn a_segment_of_unknown_end_counts_as_no_time() {
        let mut all = hours(24, NOW);
        all.push(Kept { number: 24, end: None, bytes: 1 });
        let day = Options { age: Duration::from_secs(DAY as u64), ..Options::default() };
        assert_eq!(kept(&all, NOW, &day), 25);
        assert_eq!(kept(&all, NOW + 2 * HOUR, &day), 24);
    }
}
