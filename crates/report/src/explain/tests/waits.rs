//! Rules about waiting: for each, a profile where it speaks and one where it must not.

use flamelet_profile::{Event, Thread, ThreadId, Timeline};

use super::*;

pub(super) const TESTED: &[&str] = &[
    "worker-imbalance",
    "contended-lock",
    "lock-holder",
    "dominant-await",
    "undersized-pool",
    "blocked-executor",
];

const MS: i64 = 1_000_000;

/// A row: its stack, leaf first, its labels, and how many milliseconds.
type Row<'a> = (&'a [FrameText<'a>], &'a [(&'a str, &'a str)], i64);

fn waits(count: &str, duration: i64, rows: &[Row<'_>]) -> Explanation {
    let mut builder = ProfileBuilder::new(&[(count, "count"), ("delay", "nanoseconds")]);
    builder.set_default_sample_type("delay");
    builder.header_mut().duration_nanos = duration;
    for (stack, labels, millis) in rows {
        let frames: Vec<_> = stack
            .iter()
            .map(|(name, file)| {
                let function = builder.named_function(name, file);
                builder.frame(function, 7)
            })
            .collect();
        let stack = builder.stack(&frames);
        let labels: Vec<_> = labels.iter().map(|(key, value)| builder.text_label(key, value)).collect();
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[500, millis * MS]);
    }
    let report =
        Report::new(builder.finish(), &ReportOptions::default(), ReportKind::Explain).expect("a report");
    let owners = Owners::of(&report.profile, |_, _| false);
    explain(&report, &owners)
}

#[track_caller]
fn finding<'e>(explained: &'e Explanation, rule: &str) -> &'e Finding {
    let found = explained.findings.iter().find(|finding| finding.rule == rule);
    found.unwrap_or_else(|| panic!("{rule}: {:?}", explained.findings))
}

const FUTEX: FrameText<'_> = ("std::sys::pal::unix::futex::futex_wait", "");
const WAKE: FrameText<'_> = ("std::sys::pal::unix::futex::futex_wake", "");
const CONTENDED: FrameText<'_> = ("std::sys::sync::mutex::futex::Mutex::lock_contended", "");
const RECEIVE: FrameText<'_> = ("std::sync::mpmc::list::Channel<T>::recv", "");

#[test]
fn a_lock_is_reported_where_it_is_waited_for_and_an_idle_worker_is_not() {
    let lock: Row<'_> = (&[FUTEX, CONTENDED, TOTAL, HANDLE], &[("kind", "mutex")], 400);
    let idle: Row<'_> = (&[FUTEX, RECEIVE, HANDLE], &[("kind", "channel")], 90_000);
    let explained = waits("contentions", 0, &[lock, idle]);
    let found = finding(&explained, "contended-lock");
    assert!(found.title.contains("400ms"), "{}", found.title);
    assert_eq!((found.places[0].function.as_str(), found.places[0].line), ("shop::total", 7));
    assert!(!speaks(&explained, "lock-holder"), "the holder is not in this profile");
    assert!(!speaks(&explained, "spinning") && !speaks(&explained, "wake-ups"), "not about CPU time");
    assert!(
        !speaks(&waits("contentions", 0, &[idle]), "contended-lock"),
        "waiting for work is no contention"
    );
    let slight = (lock.0, lock.1, 50);
    assert!(!speaks(&waits("contentions", 0, &[slight, idle]), "contended-lock"), "50 ms since the start");
    // Of ten seconds, 400 ms are 4 %; of a minute, they are nothing.
    assert!(speaks(&waits("contentions", 10_000 * MS, &[lock]), "contended-lock"));
    assert!(!speaks(&waits("contentions", 60_000 * MS, &[lock]), "contended-lock"));
}

#[test]
fn who_holds_a_lock_is_reported_from_the_other_profile() {
    let guard = ("core::ptr::drop_in_place<std::sync::poison::mutex::MutexGuard<()>>", "");
    let explained = waits("contentions", 0, &[(&[WAKE, guard, TOTAL, HANDLE], &[("kind", "mutex")], 400)]);
    assert_eq!(finding(&explained, "lock-holder").places[0].function, "shop::total");
    assert!(!speaks(&explained, "contended-lock"));
    let parked = waits("contentions", 0, &[(&[FUTEX, HANDLE], &[("kind", "condvar")], 400)]);
    assert!(!speaks(&parked, "lock-holder"), "no thread holds a condition variable");
    let unlocks = ("parking_lot::raw_mutex::RawMutex::unlock_slow", "");
    let explained = waits("contentions", 0, &[(&[unlocks, TOTAL], &[("", "")], 400)]);
    assert!(speaks(&explained, "lock-holder") && !speaks(&explained, "contended-lock"));
}

const SLEEP: FrameText<'_> = ("tokio::time::sleep::Sleep::poll", "");
const QUERY: FrameText<'_> = ("shop::query", "/home/me/shop/src/db.rs");

#[test]
fn an_await_dominates_if_requests_spend_half_of_their_awaiting_there() {
    let query = |millis| -> Row<'_> { (&[SLEEP, QUERY, HANDLE], &[("route", "/cart")], millis) };
    let other: Row<'_> = (&[SLEEP, TOTAL, HANDLE], &[("route", "/cart")], 300);
    let background: Row<'_> = (&[SLEEP, ("shop::refill", HANDLE.1)], &[("task", "refill")], 90_000);
    let explained = waits("awaits", 0, &[query(900), other, background]);
    let found = finding(&explained, "dominant-await");
    assert_eq!(found.places[0].function, "shop::query");
    assert!((found.share - 0.75).abs() < 1e-9 && found.title.contains("900ms of 1.20s"), "{found:?}");
    let even = [query(300), other, (&[SLEEP, HANDLE], &[("route", "/cart")], 300), background];
    assert!(!speaks(&waits("awaits", 0, &even), "dominant-await"));
    // Without requests, all tasks count.
    assert!(speaks(&waits("awaits", 0, &[background]), "dominant-await"));
}

/// Most requests wait for one thing, and the slow ones for another.
#[test]
fn the_await_of_slow_requests_dominates_if_it_is_known_which_are_slow() {
    let usual: Row<'_> = (&[SLEEP, TOTAL, HANDLE], &[("route", "/cart")], 9_000);
    let slow: [(&str, &str); 2] = [("route", "/cart"), ("slow", "p99")];
    let query: Row<'_> = (&[SLEEP, QUERY, HANDLE], &slow, 900);
    let explained = waits("awaits", 0, &[usual, query]);
    let found = finding(&explained, "dominant-await");
    assert_eq!(found.places[0].function, "shop::query");
    assert!(found.title.contains("900ms of 900ms, of requests slower than the p99"), "{}", found.title);
    let some: Row<'_> = (&[SLEEP, TOTAL, HANDLE], &slow, 900);
    let other: Row<'_> = (&[SLEEP, HANDLE], &slow, 900);
    assert!(!speaks(&waits("awaits", 0, &[usual, query, some, other]), "dominant-await"), "none dominates");
}

#[test]
fn a_pool_is_too_small_if_requests_queue_for_it() {
    let acquire = ("<tokio::sync::batch_semaphore::Acquire as core::future::future::Future>::poll", "");
    let mutex = ("tokio::sync::mutex::Mutex<T>::lock::{{closure}}", "");
    let queue: Row<'_> = (&[acquire, QUERY, HANDLE], &[("route", "/cart")], 600);
    let other: Row<'_> = (&[SLEEP, TOTAL, HANDLE], &[("route", "/cart")], 600);
    assert!(speaks(&waits("awaits", 0, &[queue, other]), "undersized-pool"));
    assert!(!speaks(&waits("awaits", 0, &[other]), "undersized-pool"));
    let locked: Row<'_> = (&[acquire, mutex, QUERY, HANDLE], &[("route", "/cart")], 600);
    assert!(!speaks(&waits("awaits", 0, &[locked, other]), "undersized-pool"), "an async mutex is no pool");
}

#[test]
fn long_polls_hold_up_the_executor_whatever_their_cause() {
    let explained = waits(
        "polls",
        0,
        &[(&[FUTEX, TOTAL, HANDLE], &[("cause", "lock")], 300), (&[TOTAL, HANDLE], &[("cause", "cpu")], 100)],
    );
    let found = finding(&explained, "blocked-executor");
    assert!(found.title.ends_with("400ms by lock 75 %, cpu 25 %"), "{}", found.title);
    let one = waits("polls", 0, &[(&[TOTAL, HANDLE], &[("cause", "cpu")], 30)]);
    assert!(!speaks(&one, "blocked-executor"), "30 ms since the start");
    assert!(!speaks(&waits("polls", 0, &[]), "blocked-executor"));
}

/// A CPU profile of threads, each with its name and its milliseconds.
fn threads(workers: &[(&str, i64)]) -> Explanation {
    threads_of(workers, |_| 99)
}

/// The same; `process` returns the process of each thread.
fn threads_of(workers: &[(&str, i64)], process: impl Fn(usize) -> u64) -> Explanation {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let function = builder.named_function(TOTAL.0, TOTAL.1);
    let frame = builder.frame(function, 1);
    let stack = builder.stack(&[frame]);
    let mut timeline = Timeline { value_type: 1, ..Timeline::default() };
    for (number, (name, millis)) in workers.iter().enumerate() {
        let label = builder.text_label("thread", name);
        let labels = builder.labels(&[label]);
        let sample = builder.merge_sample(stack, labels, &[*millis, millis * MS]) as u32;
        let (pid, tid) = (process(number), number as u64 + 1);
        let thread = Thread { pid, tid, name: builder.string(name), ..Thread::default() };
        timeline.threads.push(thread);
        let thread = ThreadId::from_index(number);
        timeline.events.push(Event { time: number as u64, sample, thread, value: millis * MS });
    }
    let mut profile = builder.finish();
    profile.timeline = Some(timeline);
    let options = ReportOptions { sample_index: "1".into(), ..ReportOptions::default() };
    let report = Report::new(profile, &options, ReportKind::Explain).expect("a report");
    let owners = Owners::of(&report.profile, |_, _| false);
    explain(&report, &owners)
}

#[test]
fn a_pool_of_which_one_worker_works_is_out_of_balance() {
    let worker = "tokio-runtime-w";
    let explained = threads(&[(worker, 900), (worker, 50), (worker, 50), ("main", 10)]);
    assert!(finding(&explained, "worker-imbalance").title.contains("one of 3 threads"), "{explained:?}");
    let even = threads(&[(worker, 400), (worker, 300), (worker, 300), ("main", 10)]);
    assert!(!speaks(&even, "worker-imbalance"));
    let numbered = threads(&[("rayon-1", 900), ("rayon-2", 50), ("rayon-3", 50)]);
    assert!(speaks(&numbered, "worker-imbalance"));
    // The pool is not where the work is.
    let elsewhere = threads(&[(worker, 90), (worker, 5), (worker, 5), ("main", 900)]);
    assert!(!speaks(&elsewhere, "worker-imbalance"));
    // Threads of a pool are several, even if they have one name.
    let busy = threads(&[(worker, 450), (worker, 450), ("main", 10), ("io", 10)]);
    assert!(!speaks(&busy, "one-busy-thread"));
    let busy = threads(&[(worker, 900), (worker, 10), ("main", 10), ("io", 10)]);
    assert!(speaks(&busy, "one-busy-thread"));
    // Threads of C++ are called like the program, and so is its main thread, which waits for no work.
    let main_thread = threads_of(&[("words", 900), ("words", 50), ("words", 50), ("words", 50)], |_| 1);
    assert!(!speaks(&main_thread, "worker-imbalance"));
    // The programs that a script starts have its name at first.
    let script = threads_of(&[("sh", 900), ("sh", 50), ("sh", 50)], |number| number as u64 + 1);
    assert!(!speaks(&script, "worker-imbalance"));
}
