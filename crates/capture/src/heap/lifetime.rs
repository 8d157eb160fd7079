//! How long objects live, in classes.

/// A class of lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifetime {
    /// Freed by the thread that allocated it before that thread allocated anything else.
    Temporary = 0,
    /// Less than a millisecond.
    Millisecond,
    /// 1 ms to 10 ms.
    Milliseconds10,
    /// 10 ms to 100 ms.
    Milliseconds100,
    /// 100 ms to 1 s.
    Second,
    /// 1 s to 10 s.
    Seconds10,
    /// 10 s to a minute.
    Minute,
    /// 1 to 10 minutes.
    Minutes10,
    /// 10 minutes to an hour.
    Hour,
    /// An hour and more.
    Longer,
}

impl Lifetime {
    /// All classes, shortest first.
    pub const ALL: [Self; 10] = [
        Self::Temporary,
        Self::Millisecond,
        Self::Milliseconds10,
        Self::Milliseconds100,
        Self::Second,
        Self::Seconds10,
        Self::Minute,
        Self::Minutes10,
        Self::Hour,
        Self::Longer,
    ];

    const MILLISECOND: u64 = 1_000_000;

    pub(super) fn of(nanos: u64, is_temporary: bool) -> Self {
        const SECOND: u64 = 1000 * Lifetime::MILLISECOND;
        const LIMITS: [u64; 8] = [
            Lifetime::MILLISECOND,
            10 * Lifetime::MILLISECOND,
            100 * Lifetime::MILLISECOND,
            SECOND,
            10 * SECOND,
            60 * SECOND,
            600 * SECOND,
            3600 * SECOND,
        ];
        if is_temporary {
            return Self::Temporary;
        }
        Self::ALL[1 + LIMITS.partition_point(|&limit| limit <= nanos)]
    }

    /// Returns the value of the label `lifetime` in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Millisecond => "<1ms",
            Self::Milliseconds10 => "1ms-10ms",
            Self::Milliseconds100 => "10ms-100ms",
            Self::Second => "100ms-1s",
            Self::Seconds10 => "1s-10s",
            Self::Minute => "10s-1m",
            Self::Minutes10 => "1m-10m",
            Self::Hour => "10m-1h",
            Self::Longer => ">=1h",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lifetime;

    #[test]
    fn limits_belong_to_the_longer_class() {
        assert_eq!(Lifetime::of(0, false), Lifetime::Millisecond);
        assert_eq!(Lifetime::of(999_999, false), Lifetime::Millisecond);
        assert_eq!(Lifetime::of(1_000_000, false), Lifetime::Milliseconds10);
        assert_eq!(Lifetime::of(3_600_000_000_000, false), Lifetime::Longer);
        assert_eq!(Lifetime::of(u64::MAX, true), Lifetime::Temporary);
    }
}
