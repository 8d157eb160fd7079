//! What is counted of requests: how long they took, and what they spent that time on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::parts::TimeParts;

/// Wall times are counted in buckets, two to the power of this many for each doubling: those of a bucket differ by 6 % at most.
const FINENESS: u32 = 4;

/// How many buckets are made at a time, those of a doubling: requests of a route take about equally long, and most buckets are
/// never used.
const TOGETHER: usize = 1 << FINENESS;

/// Shorter times (two to the power of this, a microsecond) are in the first bucket.
const SHORTEST: u32 = 10;

/// Times that are longer by so many doublings (more than an hour) are in the last bucket.
const DOUBLINGS: usize = 32;

const BUCKETS: usize = DOUBLINGS * TOGETHER;

/// What is counted of some requests of a route.
#[derive(Default)]
pub(super) struct Counts {
    errors: AtomicU64,
    cancelled: AtomicU64,
    longest: AtomicU64,
    buckets: [OnceLock<Box<[Bucket; TOGETHER]>>; BUCKETS / TOGETHER],
}

/// The requests whose wall times are about the same.
#[derive(Debug, Default)]
struct Bucket {
    count: AtomicU64,
    /// All but the wall time, which is their sum.
    parts: [AtomicU64; 4],
}

impl Counts {
    /// Counts a request that was answered. Returns whether enough have been counted to decide again which are slow.
    pub(super) fn answered(&self, parts: TimeParts, is_error: bool) -> bool {
        if parts.wall > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(parts.wall, Ordering::Relaxed);
        }
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let place = bucket_of(parts.wall);
        let made = &self.buckets[place / TOGETHER];
        made.get_or_init(Box::default)[place % TOGETHER].add(parts)
    }

    pub(super) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub(super) fn all_cancelled(&self) -> u64 {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }

    /// Returns what all of these have in each bucket together.
    pub(super) fn sums(all: &[Arc<Self>]) -> Vec<RequestSum> {
        let mut sums = vec![RequestSum::default(); BUCKETS];
        for (place, bucket) in all.iter().flat_map(|counts| counts.buckets()) {
            sums[place] = sums[place].plus(&bucket.sum(), 1.0);
        }
        sums
    }

    /// Returns how many requests all of these have in each bucket together.
    pub(super) fn numbers(all: &[Arc<Self>]) -> [u64; BUCKETS] {
        let mut numbers = [0; BUCKETS];
        for (place, bucket) in all.iter().flat_map(|counts| counts.buckets()) {
            numbers[place] += bucket.count.load(Ordering::Relaxed);
        }
        numbers
    }

    /// Returns the buckets that were made, with their numbers.
    fn buckets(&self) -> impl Iterator<Item = (usize, &Bucket)> {
        let made = (0..).step_by(TOGETHER).zip(&self.buckets);
        made.filter_map(|(first, made)| Some((first, made.get()?)))
            .flat_map(|(first, made)| (first..).zip(made.iter()))
    }
}

impl Bucket {
    /// Counts a request. Returns whether it is time to decide again which are slow. Each thread has buckets of its own, so each
    /// may have few requests at first.
    fn add(&self, parts: TimeParts) -> bool {
        let TimeParts { wall: _, cpu, blocked, awaiting, runnable } = parts;
        for (sum, part) in self.parts.iter().zip([cpu, blocked, awaiting, runnable]) {
            if part > 0 {
                sum.fetch_add(part, Ordering::Relaxed);
            }
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        count.is_power_of_two() || count.is_multiple_of(JUDGED_EVERY)
    }

    fn sum(&self) -> RequestSum {
        let [cpu, blocked, awaiting, runnable] = self.parts.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        let wall = [cpu, blocked, awaiting, runnable].into_iter().fold(0, u64::wrapping_add);
        let parts = TimeParts { wall, cpu, blocked, awaiting, runnable };
        RequestSum { count: self.count.load(Ordering::Relaxed), parts }
    }
}

/// How many requests, and what they spent together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RequestSum {
    pub(super) count: u64,
    pub(super) parts: TimeParts,
}

impl RequestSum {
    pub(super) fn plus(mut self, other: &Self, share: f64) -> Self {
        let scale = |value: u64| if share < 1.0 { (value as f64 * share).round() as u64 } else { value };
        self.count += scale(other.count);
        let (own, more) = (self.parts.array(), other.parts.array());
        self.parts = TimeParts::of(std::array::from_fn(|at| own[at] + scale(more[at])));
        self
    }
}

/// Returns the number of the bucket of a wall time: the position of its highest bit, and the bits below that.
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(1 << SHORTEST);
    let highest = nanos.ilog2();
    let part = (nanos >> (highest - FINENESS)) as usize % TOGETHER;
    ((highest - SHORTEST) as usize * TOGETHER + part).min(BUCKETS - 1)
}

/// After this many requests of a bucket, and before that whenever there are twice as many, it is decided again which requests of the
/// route are slow.
const JUDGED_EVERY: u64 = 1024;
/// With fewer requests, none is called slow.
const FEWEST_JUDGED: u64 = 64;

/// Returns the longest wall time of the bucket that the 99th percentile is in; as long as there are too few requests, a time
/// that none reaches.
pub(super) fn slow_after(counts: &[u64]) -> u64 {
    let total: u64 = counts.iter().sum();
    if total < FEWEST_JUDGED {
        return u64::MAX;
    }
    let wanted = (total * 99).div_ceil(100);
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    reached.map_or(u64::MAX, longest_of)
}

/// Returns the longest wall time of a bucket.
fn longest_of(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS {
        return u64::MAX;
    }
    let (doublings, part) = (bucket / TOGETHER, bucket % TOGETHER);
    (((TOGETHER + part + 1) as u64) << (doublings as u32 + SHORTEST - FINENESS)) - 1
}

/// Returns the average wall time of the bucket in which this share of the requests is reached.
pub(super) fn percentile(buckets: &[RequestSum], total: u64, percent: u64) -> u64 {
    let wanted = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let found = buckets.iter().find(|bucket| {
        seen += bucket.count;
        bucket.count > 0 && seen >= wanted
    });
    found.map_or(0, |bucket| bucket.parts.wall / bucket.count)
}

/// Returns the sum of the `wanted` slowest requests; of the fastest bucket among those, its share.
pub(super) fn slowest(buckets: &[RequestSum], wanted: u64) -> RequestSum {
    let mut sum = RequestSum::default();
    for bucket in buckets.iter().rev().filter(|bucket| bucket.count > 0) {
        let missing = wanted - sum.count;
        if missing == 0 {
            break;
        }
        let share = missing.min(bucket.count) as f64 / bucket.count as f64;
        let count = sum.count + missing.min(bucket.count);
        sum = RequestSum { count, ..sum.plus(bucket, share) };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_of_a_bucket_is_the_last_one_in_it() {
        for time in [0, 7, 1023, 1024, 1087, 1088, 1_000_000, 1_000_000_000, u64::MAX / 2, u64::MAX] {
            let longest = longest_of(bucket_of(time));
            assert!(longest >= time && bucket_of(longest) == bucket_of(time), "{time}: {longest}");
            assert!(
                longest == u64::MAX || bucket_of(longest + 1) == bucket_of(time) + 1,
                "{time}: {longest}"
            );
        }
    }

    #[test]
    fn times_of_a_bucket_are_alike() {
        for bucket in 1..BUCKETS - 1 {
            let (shortest, longest) = (longest_of(bucket - 1) + 1, longest_of(bucket));
            assert_eq!((bucket_of(shortest), bucket_of(longest)), (bucket, bucket));
            assert!(longest - shortest <= shortest / 16, "{shortest} to {longest}");
        }
    }

    #[test]
    fn buckets_are_in_order_and_all_times_have_one() {
        let times = [0, 1, 1023, 1024, 1100, 1_000_000, 1_050_000, 60_000_000_000, u64::MAX / 2, u64::MAX];
        let buckets = times.map(bucket_of);
        assert!(buckets.is_sorted() && buckets.iter().all(|&bucket| bucket < BUCKETS), "{buckets:?}");
    }
}
