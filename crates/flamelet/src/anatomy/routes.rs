//! What is counted for each route.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_capture::labels::LabelSet;

use super::parts::TimeParts;
use crate::lock::ProcessRwLock;

/// More routes than this are counted together.
const MOST_ROUTES: usize = 500;

/// Longer names are cut: a template is the service's own, but may be of any length.
const LONGEST_NAME: usize = 200;

/// Wall times are counted in this many buckets, four for each doubling.
const BUCKETS: usize = 256;

/// All routes of a profiler. The child of a fork counts its own requests.
#[derive(Default)]
pub(crate) struct Requests {
    routes: ProcessRwLock<Routes>,
}

/// The methods of each route, by its name.
type Routes = HashMap<String, Vec<Arc<Route>>>;

/// A route and method.
pub(crate) struct Route {
    name: String,
    method: String,
    pub(crate) labels: LabelSet,
    /// The name of the tasks of its requests.
    pub(crate) task: String,
    /// How many requests were answered.
    answers: AtomicU64,
    errors: AtomicU64,
    cancelled: AtomicU64,
    longest: AtomicU64,
    /// A time that fewer than 1 % of the requests exceed.
    slow_after: AtomicU64,
    buckets: Box<[Bucket]>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("task", &self.task).finish_non_exhaustive()
    }
}

/// The requests whose wall times are about the same.
#[derive(Debug, Default)]
struct Bucket {
    count: AtomicU64,
    parts: [AtomicU64; 5],
}

impl Requests {
    /// Returns the route with this name and method, or the one for all others.
    pub(crate) fn route(&self, name: &str, method: &str) -> Arc<Route> {
        if let Some(known) = self.known(name, method) {
            return known;
        }
        let mut routes = self.routes.write();
        let is_full = routes.values().map(Vec::len).sum::<usize>() >= MOST_ROUTES;
        let (name, method) = if is_full { ("(other)", "") } else { (cut(name), cut(method)) };
        let methods = routes.entry(name.to_owned()).or_default();
        if let Some(known) = methods.iter().find(|route| route.method == method) {
            return known.clone();
        }
        let route = Arc::new(Route::new(name, method));
        methods.push(route.clone());
        route
    }

    fn known(&self, name: &str, method: &str) -> Option<Arc<Route>> {
        let routes = self.routes.read();
        routes.get(cut(name))?.iter().find(|route| route.method == cut(method)).cloned()
    }

    /// Returns all routes with a finished request, the one that took most time first.
    pub(super) fn summaries(&self) -> Vec<RouteSummary> {
        let routes = self.routes.read();
        let mut summaries: Vec<RouteSummary> =
            routes.values().flatten().map(|route| route.summary()).collect();
        drop(routes);
        summaries.retain(|summary| summary.all.count + summary.cancelled > 0);
        summaries.sort_by(|a, b| {
            (b.all.parts.wall, &a.route, &a.method).cmp(&(a.all.parts.wall, &b.route, &b.method))
        });
        summaries
    }
}

fn cut(name: &str) -> &str {
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

impl Route {
    fn new(name: &str, method: &str) -> Self {
        Self {
            name: name.to_owned(),
            method: method.to_owned(),
            labels: LabelSet::new(
                [("route", name), ("method", method)].into_iter().filter(|(_, text)| !text.is_empty()),
            ),
            task: format!("{method} {name}").trim().to_owned(),
            answers: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            slow_after: AtomicU64::new(u64::MAX),
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
        }
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(&self, parts: TimeParts, is_error: bool) {
        let bucket = &self.buckets[bucket_of(parts.wall)];
        bucket.count.fetch_add(1, Ordering::Relaxed);
        for (sum, part) in bucket.parts.iter().zip(parts.array()) {
            sum.fetch_add(part, Ordering::Relaxed);
        }
        self.longest.fetch_max(parts.wall, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(is_error), Ordering::Relaxed);
        if self.answers.fetch_add(1, Ordering::Relaxed) % JUDGED_EVERY == JUDGED_EVERY - 1 {
            self.judge();
        }
    }

    /// Finds out anew which requests are slow.
    fn judge(&self) {
        let counts: Vec<u64> =
            self.buckets.iter().map(|bucket| bucket.count.load(Ordering::Relaxed)).collect();
        self.slow_after.store(slow_after(&counts), Ordering::Relaxed);
    }

    /// Returns the time after which a request is slower than 99 % of those before it, in nanoseconds. Too long for any, as long as
    /// there were too few.
    pub(crate) fn slow_after(&self) -> u64 {
        self.slow_after.load(Ordering::Relaxed)
    }

    /// Counts a request whose client went away, or whose handler was dropped.
    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    fn summary(&self) -> RouteSummary {
        let read = |bucket: &Bucket| {
            let sums = bucket.parts.each_ref().map(|sum| sum.load(Ordering::Relaxed));
            RequestSum { count: bucket.count.load(Ordering::Relaxed), parts: TimeParts::of(sums) }
        };
        let buckets: Vec<RequestSum> = self.buckets.iter().map(read).collect();
        let all = buckets.iter().fold(RequestSum::default(), |sum, bucket| sum.plus(bucket, 1.0));
        RouteSummary {
            route: self.name.clone(),
            method: self.method.clone(),
            errors: self.errors.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed),
            longest: self.longest.load(Ordering::Relaxed),
            percentiles: [50, 90, 99].map(|percent| percentile(&buckets, all.count, percent)),
            slowest: slowest(&buckets, all.count.div_ceil(100)),
            all,
        }
    }
}

/// How many requests, and what they spent together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RequestSum {
    pub(super) count: u64,
    pub(super) parts: TimeParts,
}

impl RequestSum {
    fn plus(mut self, other: &Self, share: f64) -> Self {
        let scale = |value: u64| if share < 1.0 { (value as f64 * share).round() as u64 } else { value };
        self.count += scale(other.count);
        let (own, more) = (self.parts.array(), other.parts.array());
        self.parts = TimeParts::of(std::array::from_fn(|at| own[at] + scale(more[at])));
        self
    }
}

/// What is known about a route.
#[derive(Clone, Debug)]
pub(super) struct RouteSummary {
    pub(super) route: String,
    pub(super) method: String,
    pub(super) errors: u64,
    pub(super) cancelled: u64,
    pub(super) longest: u64,
    /// The wall times that 50, 90 and 99 percent of the requests do not exceed.
    pub(super) percentiles: [u64; 3],
    pub(super) all: RequestSum,
    /// The slowest hundredth of the requests.
    pub(super) slowest: RequestSum,
}

/// Returns the number of the bucket of a wall time: the position of its highest bit, and the two bits below that.
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(4);
    let highest = 63 - nanos.leading_zeros() as usize;
    4 * highest + (nanos >> (highest - 2) & 3) as usize
}

/// After so many requests of a route, it is found out anew which are slow.
const JUDGED_EVERY: u64 = 64;

/// Returns the longest wall time of the bucket in which 99 % of the requests are reached.
fn slow_after(counts: &[u64]) -> u64 {
    let total: u64 = counts.iter().sum();
    let wanted = (total * 99).div_ceil(100);
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += count;
        total > 0 && seen >= wanted
    });
    reached.map_or(u64::MAX, longest_of)
}

/// Returns the longest wall time of a bucket.
fn longest_of(bucket: usize) -> u64 {
    let (highest, part) = (bucket / 4, bucket as u64 % 4);
    if highest < 2 {
        return 4;
    }
    (((4 + part + 1) << (highest - 2)).wrapping_sub(1)).max(4)
}

/// Returns the average wall time of the bucket in which this share of the requests is reached.
fn percentile(buckets: &[RequestSum], total: u64, percent: u64) -> u64 {
    let wanted = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let found = buckets.iter().find(|bucket| {
        seen += bucket.count;
        bucket.count > 0 && seen >= wanted
    });
    found.map_or(0, |bucket| bucket.parts.wall / bucket.count)
}

/// Returns the sum of the `wanted` slowest requests; of the fastest bucket among those, its share.
fn slowest(buckets: &[RequestSum], wanted: u64) -> RequestSum {
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

    fn parts(wall: u64) -> TimeParts {
        TimeParts { wall, cpu: wall / 2, blocked: 0, awaiting: wall - wall / 2, runnable: 0 }
    }

    #[test]
    fn sums_percentiles_and_the_slowest_are_what_was_counted() {
        let requests = Requests::default();
        let route = requests.route("/a", "GET");
        for millis in 1..=100 {
            route.answered(parts(millis * 1_000_000), millis == 7);
        }
        route.cancelled();
        let [summary] = &requests.summaries()[..] else { panic!("one route") };
        assert_eq!((summary.all.count, summary.errors, summary.cancelled), (100, 1, 1));
        assert_eq!(summary.all.parts.wall, 5_050_000_000);
        assert_eq!(summary.longest, 100_000_000);
        for (at, exact) in [(0, 50.0), (1, 90.0), (2, 99.0)] {
            let millis = summary.percentiles[at] as f64 / 1e6;
            assert!((millis - exact).abs() / exact < 0.13, "{millis} for {exact}");
        }
        assert_eq!(summary.slowest.count, 1);
        assert!(summary.slowest.parts.wall > 85_000_000, "{summary:?}");
        let all = summary.all.parts;
        assert_eq!(all.wall, all.cpu + all.blocked + all.awaiting + all.runnable);
    }

    #[test]
    fn a_request_is_slow_if_hardly_any_was_slower() {
        let requests = Requests::default();
        let route = requests.route("/a", "GET");
        (0..63).for_each(|_| route.answered(parts(1_000_000), false));
        assert_eq!(route.slow_after(), u64::MAX, "too few to tell");
        route.answered(parts(1_000_000), false);
        let slow = route.slow_after();
        assert!((1_000_000..1_200_000).contains(&slow), "none of those that are alike: {slow}");
        (0..64).for_each(|at| route.answered(parts(if at < 63 { 1_000_000 } else { 9_000_000 }), false));
        assert_eq!(route.slow_after(), slow, "one in 128");
        (0..64).for_each(|_| route.answered(parts(9_000_000), false));
        assert!(route.slow_after() >= 9_000_000, "now it is usual");
    }

    #[test]
    fn the_longest_time_of_a_bucket_is_the_last_one_in_it() {
        for time in [4, 5, 6, 7, 8, 9, 1000, 1_000_000, u64::MAX / 2, u64::MAX] {
            let longest = longest_of(bucket_of(time));
            assert!(longest >= time && bucket_of(longest) == bucket_of(time), "{time}: {longest}");
            assert!(
                longest == u64::MAX || bucket_of(longest + 1) == bucket_of(time) + 1,
                "{time}: {longest}"
            );
        }
    }

    #[test]
    fn buckets_are_in_order_and_all_times_have_one() {
        let times = [0, 1, 4, 5, 6, 7, 8, 1000, 1_000_000, u64::MAX / 2, u64::MAX];
        let buckets = times.map(bucket_of);
        assert!(buckets.is_sorted() && buckets.iter().all(|&bucket| bucket < BUCKETS), "{buckets:?}");
    }

    #[test]
    fn a_storm_of_routes_is_bounded_and_still_counted() {
        let requests = Requests::default();
        for number in 0..10 * MOST_ROUTES {
            requests.route(&format!("/{number}"), "GET").answered(parts(1000), false);
        }
        requests.route(&"x".repeat(100_000), "GET").answered(parts(1000), false);
        let summaries = requests.summaries();
        assert_eq!(summaries.len(), MOST_ROUTES + 1);
        let total: u64 = summaries.iter().map(|summary| summary.all.count).sum();
        assert_eq!(total, 10 * MOST_ROUTES as u64 + 1);
        assert!(summaries.iter().all(|summary| summary.route.len() <= LONGEST_NAME));
    }
}
