//! Statistics of system calls: every call is counted and timed.

use rustc_hash::FxHashMap;

use super::threads::ThreadRow;
use crate::events::ring_records::u64_at;

/// The number of buckets in the histogram: the n-th holds durations from 2^(n-1) up to 2^n nanoseconds.
pub const BUCKETS: usize = 48;

/// The statistics of one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallStats {
    /// How many calls returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How long they took together, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub longest_nanos: u64,
    /// The histogram of durations: the n-th bucket counts calls of 2^(n-1) up to 2^n nanoseconds.
    pub histogram: [u64; BUCKETS],
    /// How often each error number was returned.
    pub errors_by_number: Vec<(i32, u64)>,
}

impl Default for SyscallStats {
    fn default() -> Self {
        Self {
            calls: 0,
            errors: 0,
            nanos: 0,
            longest_nanos: 0,
            histogram: [0; BUCKETS],
            errors_by_number: Vec::new(),
        }
    }
}

impl SyscallStats {
    /// Adds a call that returned `result` after `nanos`, or `None` if its start was not seen.
    pub(crate) fn add(&mut self, result: i64, nanos: Option<u64>) {
        self.calls += 1;
        if let Some(nanos) = nanos {
            self.nanos += nanos;
            self.longest_nanos = self.longest_nanos.max(nanos);
            let bucket = (u64::BITS - nanos.leading_zeros()) as usize;
            self.histogram[bucket.min(BUCKETS - 1)] += 1;
        }
        if (-4095..0).contains(&result) {
            self.errors += 1;
            let number = -result as i32;
            match self.errors_by_number.iter_mut().find(|(known, _)| *known == number) {
                Some((_, count)) => *count += 1,
                None => self.errors_by_number.push((number, 1)),
            }
        }
    }

    /// Adds the statistics of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.nanos += other.nanos;
        self.longest_nanos = self.longest_nanos.max(other.longest_nanos);
        self.histogram.iter_mut().zip(other.histogram).for_each(|(into, count)| *into += count);
        for &(number, count) in &other.errors_by_number {
            match self.errors_by_number.iter_mut().find(|(known, _)| *known == number) {
                Some((_, into)) => *into += count,
                None => self.errors_by_number.push((number, count)),
            }
        }
    }

    /// Returns the duration within which `share` (0 to 1) of the calls returned, to the precision of the histogram.
    pub fn quantile_nanos(&self, share: f64) -> u64 {
        let timed: u64 = self.histogram.iter().sum();
        let wanted = (timed as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.histogram.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (1u64 << bucket).min(self.longest_nanos.max(1));
            }
        }
        self.longest_nanos
    }
}

/// The system calls of each thread.
pub(crate) type SyscallTable = FxHashMap<(ThreadRow, i64), SyscallStats>;

/// Returns the number of the system call from the data of either tracepoint.
pub(crate) fn number(raw: &[u8]) -> Option<i64> {
    u64_at(raw, 8).map(|word| word as i64)
}

/// Returns the result from the data of `sys_exit`.
pub(crate) fn result(raw: &[u8]) -> Option<i64> {
    u64_at(raw, 16).map(|word| word as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fall_into_buckets_by_powers_of_two() {
        let mut stats = SyscallStats::default();
        [1, 3, 900, 1_000, 1_000_000].into_iter().for_each(|nanos| stats.add(0, Some(nanos)));
        stats.add(-2, None);
        assert_eq!((stats.calls, stats.errors, stats.nanos), (6, 1, 1_001_904));
        assert_eq!((stats.histogram[1], stats.histogram[2], stats.histogram[10]), (1, 1, 2));
        assert_eq!(stats.errors_by_number, [(2, 1)]);
        assert_eq!(stats.quantile_nanos(0.5), 1024);
        assert_eq!(stats.quantile_nanos(1.0), 1_000_000);
    }
}
