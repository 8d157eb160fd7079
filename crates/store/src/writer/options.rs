//! How much a history keeps.

use std::time::Duration;

use flamelet_profile::{Error, Result};

/// How much a history keeps, and how it is cut into segments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The most bytes that the folder's files may have together; 128 MiB by default. The oldest segments are removed
    /// first; the newest is always kept.
    pub bytes: u64,
    /// How long windows are kept; seven days by default. The time between two segments counts as at most an eighth
    /// of that, so that a clock that jumps forward does not make everything old at once.
    pub age: Duration,
    /// The longest time that one segment covers; six hours by default. It is never more than an eighth of `age`, since
    /// segments are removed as a whole.
    pub segment_span: Duration,
    /// The size at which the next segment is begun; 4 MiB by default.
    pub segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes: 128 << 20,
            age: Duration::from_secs(7 * 86_400),
            segment_span: Duration::from_secs(6 * 3600),
            segment_bytes: 4 << 20,
        }
    }
}

impl Options {
    /// Returns the longest time that one segment covers.
    pub(crate) fn longest_segment(&self) -> Duration {
        self.segment_span.min(self.age / 8)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let has_room = self.bytes >= 64 << 10 && self.segment_bytes >= 4 << 10;
        if !has_room || self.age.is_zero() || self.segment_span.is_zero() {
            return Err(Error::invalid(
                "a history needs 64 KiB at least, segments of 4 KiB at least, and an age above 0",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_an_hour_is_in_segments_of_minutes() {
        let hour = Options { age: Duration::from_secs(3600), ..Options::default() };
        assert_eq!(hour.longest_segment(), Duration::from_secs(450));
        assert_eq!(Options::default().longest_segment(), Duration::from_secs(6 * 3600));
    }
}
