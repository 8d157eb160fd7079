//! The routes of a service.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use flamelet_capture::labels::LabelSet;
use flamelet_capture::profile::sort_rows;

use super::counts::{Counts, RequestSum, percentile, slow_after, slowest};
use super::parts::TimeParts;
use crate::work::lock::{PerProcess, lock, read, write};

/// More routes than this are counted together.
const MOST_ROUTES: usize = 500;

/// Longer names are cut: a template is the service's own, but may be of any length.
const LONGEST_NAME: usize = 200;

/// More threads than this count together.
const MOST_COUNTS: usize = 64;

/// How many routes a thread remembers.
const REMEMBERED: usize = 32;

/// All routes of a profiler. The child of a fork counts its own requests.
pub(crate) struct Requests {
    table: PerProcess<RouteTable>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { table: PerProcess::new() }
    }
}

struct RouteTable {
    /// No other table of this process has it, not even one that is gone.
    number: u64,
    routes: RwLock<Routes>,
}

/// The methods of each route, by its name.
type Routes = HashMap<String, Vec<Arc<Route>>>;

/// A route and method.
pub(crate) struct Route {
    name: String,
    method: String,
    labels: LabelSet,
    /// The name of the tasks of its requests.
    task: String,
    /// A time that fewer than 1 % of the requests exceed.
    slow_after: AtomicU64,
    /// What each thread has counted.
    counts: Mutex<Vec<Arc<Counts>>>,
}

/// A route as one thread uses it: with counts and labels that other threads use only when they end a request of this one, so
/// that the CPUs do not pass this memory to each other all the time.
pub(crate) struct ThreadRoute {
    /// The table that the route is in.
    table: u64,
    route: Arc<Route>,
    counts: Arc<Counts>,
    pub(crate) labels: LabelSet,
}

thread_local! {
    /// The routes that this thread uses most, nearest to the front.
    static KNOWN: RefCell<Vec<Arc<ThreadRoute>>> = const { RefCell::new(Vec::new()) };
}

impl std::fmt::Debug for ThreadRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadRoute").field("task", &self.task()).finish_non_exhaustive()
    }
}

impl Requests {
    /// Returns the route with this name and method, or the one for all others.
    pub(crate) fn route(&self, name: &str, method: &str) -> Arc<ThreadRoute> {
        let (table, name, method) = (self.table(), cut(name), cut(method));
        let known = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            let at = known.iter().position(|route| route.is(table.number, name, method))?;
            known.swap(at, at / 2);
            known.get(at / 2).cloned()
        });
        known.ok().flatten().unwrap_or_else(|| table.route_for_thread(name, method))
    }

    fn table(&self) -> &RouteTable {
        self.table.get_quick(|_| RouteTable::new())
    }

    /// Returns all routes with a finished request, the one that took the most time first.
    pub(super) fn summaries(&self) -> Vec<RouteSummary> {
        let routes: Vec<Arc<Route>> = read(&self.table().routes).values().flatten().cloned().collect();
        let mut summaries: Vec<RouteSummary> = routes.iter().map(|route| route.summary()).collect();
        summaries.retain(|summary| summary.all.count + summary.cancelled > 0);
        sort_rows(&mut summaries, |a, b| {
            (b.all.parts.wall, &a.route, &a.method).cmp(&(a.all.parts.wall, &b.route, &b.method))
        });
        summaries
    }
}

impl RouteTable {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), routes: RwLock::default() }
    }

    /// Finds the route, and lets this thread remember it.
    #[cold]
    fn route_for_thread(&self, name: &str, method: &str) -> Arc<ThreadRoute> {
        let route = self.known(name, method).unwrap_or_else(|| self.make(name, method));
        let (counts, labels) = (route.counts_for_thread(), route.labels.counted_apart());
        let own = Arc::new(ThreadRoute { table: self.number, route, counts, labels });
        // A thread that is ending remembers nothing, nor does any what is found under another name.
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            if own.is(self.number, name, method) {
                known.truncate(REMEMBERED - 1);
                known.push(own.clone());
            }
        });
        own
    }

    fn known(&self, name: &str, method: &str) -> Option<Arc<Route>> {
        let routes = read(&self.routes);
        routes.get(name)?.iter().find(|route| route.method == method).cloned()
    }

    fn make(&self, name: &str, method: &str) -> Arc<Route> {
        let mut routes = write(&self.routes);
        let is_full = routes.values().map(Vec::len).sum::<usize>() >= MOST_ROUTES;
        let (name, method) = if is_full { ("(other)", "") } else { (name, method) };
        let methods = routes.entry(name.to_owned()).or_default();
        if let Some(known) = methods.iter().find(|route| route.method == method) {
            return known.clone();
        }
        let route = Arc::new(Route::new(name, method));
        methods.push(route.clone());
        route
    }
}

fn cut(name: &str) -> &str {
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let end = (0..=LONGEST_NAME).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

impl ThreadRoute {
    fn is(&self, table: u64, name: &str, method: &str) -> bool {
        self.table == table && self.route.name == name && self.route.method == method
    }

    /// Returns the name of the tasks of its requests.
    pub(crate) fn task(&self) -> &str {
        &self.route.task
    }

    /// Returns the time after which a request is slower than 99 % of those before it, in nanoseconds. Too long for any, as long as
    /// there were too few.
    pub(crate) fn slow_after(&self) -> u64 {
        self.route.slow_after.load(Ordering::Relaxed)
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(&self, parts: TimeParts, is_error: bool) {
        if self.counts.answered(parts, is_error) {
            self.route.judge();
        }
    }

    /// Counts a request whose client went away, or whose handler was dropped.
    pub(crate) fn cancelled(&self) {
        self.counts.cancelled();
    }
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
            slow_after: AtomicU64::new(u64::MAX),
            counts: Mutex::default(),
        }
    }

    /// Returns counts that no other thread uses, if there are not too many.
    fn counts_for_thread(&self) -> Arc<Counts> {
        let mut all = lock(&self.counts);
        // Those of a thread that has ended, or of one that has forgotten the route. Nobody else can take them meanwhile.
        let unused = all.iter().find(|counts| Arc::strong_count(counts) == 1);
        let known = unused.or_else(|| all.get(MOST_COUNTS - 1)).cloned();
        known.unwrap_or_else(|| {
            all.push(Arc::default());
            all[all.len() - 1].clone()
        })
    }

    /// Decides again which requests are slow, unless another thread does: waiting for it could take forever in the child of a
    /// fork.
    fn judge(&self) {
        if let Ok(all) = self.counts.try_lock() {
            self.slow_after.store(slow_after(&Counts::numbers(&all)), Ordering::Relaxed);
        }
    }

    fn summary(&self) -> RouteSummary {
        let counts = lock(&self.counts).clone();
        let buckets = Counts::sums(&counts);
        let all = buckets.iter().fold(RequestSum::default(), |sum, bucket| sum.plus(bucket, 1.0));
        RouteSummary {
            route: self.name.clone(),
            method: self.method.clone(),
            errors: counts.iter().map(|counts| counts.errors()).sum(),
            cancelled: counts.iter().map(|counts| counts.all_cancelled()).sum(),
            longest: counts.iter().map(|counts| counts.longest()).max().unwrap_or(0),
            percentiles: [50, 90, 99].map(|percent| percentile(&buckets, all.count, percent)),
            slowest: slowest(&buckets, all.count.div_ceil(100)),
            all,
        }
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
            assert!((millis - exact).abs() / exact < 0.05, "{millis} for {exact}");
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
    fn a_few_requests_on_each_of_many_threads_are_enough_to_find_slow_ones() {
        let requests = Requests::default();
        // All of them have counts of their own, as none ends before the last one has begun.
        let begun = std::sync::Barrier::new(16);
        let answer_some = || {
            let route = requests.route("/a", "GET");
            begun.wait();
            (0..8).for_each(|_| route.answered(parts(1_000_000), false));
        };
        std::thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(answer_some))));
        let route = requests.route("/a", "GET");
        // Counts of 16 are always looked at; a thread that was interrupted may have kept the others from that.
        (0..8).for_each(|_| route.answered(parts(1_000_000), false));
        assert!((1_000_000..1_200_000).contains(&route.slow_after()), "{}", route.slow_after());
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

    #[test]
    fn threads_count_apart_and_the_next_one_goes_on_with_the_counts_of_one_that_ended() {
        let requests = Requests::default();
        let made = || lock(&requests.route("/a", "GET").route.counts).len();
        assert_eq!(made(), 1);
        for _ in 0..3 {
            let answer = || requests.route("/a", "GET").answered(parts(1000), false);
            std::thread::scope(|scope| scope.spawn(answer).join()).expect("no panic");
        }
        assert_eq!(made(), 2);
        let [summary] = &requests.summaries()[..] else { panic!("one route") };
        assert_eq!((summary.all.count, summary.all.parts.wall), (3, 3000));
    }

    #[test]
    fn what_a_thread_remembers_is_of_the_same_profiler_and_as_much_as_is_useful() {
        let (first, second) = (Requests::default(), Requests::default());
        for number in 0..2 * REMEMBERED {
            let name = format!("/{number}");
            for requests in [&first, &second, &first] {
                requests.route(&name, "GET").answered(parts(1000), false);
            }
        }
        assert!(KNOWN.with_borrow(Vec::len) <= REMEMBERED);
        let counts =
            |requests: &Requests| requests.summaries().iter().map(|s| s.all.count).collect::<Vec<_>>();
        assert_eq!((counts(&first), counts(&second)), (vec![2; 2 * REMEMBERED], vec![1; 2 * REMEMBERED]));
        // Another one in the place of one that is gone.
        drop(second);
        let third = Requests::default();
        third.route("/0", "GET").answered(parts(1000), false);
        assert_eq!(counts(&third), [1]);
    }
}
