//! Programs whose CPU time is known for each function, compared with the sampler's profile.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "calls into libc on purpose")]

mod support;

use flamelet_capture::cpu::{self, Options, RecentOptions, Session};
use flamelet_capture::labels::{self, LabelFuture, LabelSet};
use flamelet_profile::{LocationId, Profile};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{
    ENOUGH, Names, Used, assert_most, assert_seen, burn_blue_until_seen, burn_red, burn_red_until_seen,
    events, is_truncated, labelled, sampled, thread_cpu, timer_slack, turn, until_sampled,
};

const MILLI: Duration = Duration::from_millis(1);

fn options(frequency: u32) -> Options {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    options
}

/// Uses CPU time with its own label until samples have that label.
#[inline(never)]
fn red_part(session: &Session, part: &str, wanted: Duration) -> Used {
    let _scope = labels::scope([("red", part)]);
    burn_red_until_seen(wanted, || labelled(&session.snapshot(), "red", part))
}

/// Like [`red_part`], under other names.
#[inline(never)]
fn blue_part(session: &Session, part: &str, wanted: Duration) -> Used {
    let _scope = labels::scope([("blue", part)]);
    burn_blue_until_seen(wanted, || labelled(&session.snapshot(), "blue", part))
}

/// Alternates between red and blue, three to one; returns the CPU time of each.
fn split(session: &Session, thread: u32) -> (Used, Used) {
    let parts = [0, 1].map(|round| {
        let part = format!("{thread} {round}");
        (red_part(session, &part, MILLI * 150), blue_part(session, &part, MILLI * 50))
    });
    (parts.iter().map(|part| part.0).sum(), parts.iter().map(|part| part.1).sum())
}

#[test]
fn a_split_of_three_to_one_is_seen_on_one_two_and_eight_threads() {
    let _turn = turn();
    let names = Names::new();
    for threads in [1, 2, 8] {
        let session = cpu::start(&options(999)).expect("starts");
        let used: Vec<_> = std::thread::scope(|scope| {
            let session = &session;
            let workers: Vec<_> =
                (0..threads).map(|number| scope.spawn(move || split(session, number))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let profile = session.finish();
        let red: Used = used.iter().map(|used| used.0).sum();
        let blue: Used = used.iter().map(|used| used.1).sum();
        // A part may begin with the CPU time of the previous part after its last sample.
        let after = red.after + blue.after;
        // Each part begins and ends within a period.
        let slack = (timer_slack(999) + MILLI * 4) * threads;
        for (colour, cpu) in [("red", red.cpu), ("blue", blue.cpu)] {
            let seen = names.inclusive(&profile, &format!("{colour}_part"));
            assert_seen(&format!("{colour} on {threads} threads"), seen, Used { cpu, after }, slack);
            for sample in profile.samples() {
                let has_label =
                    profile.labels(sample.labels).iter().any(|label| profile.string(label.key) == colour);
                let stack = names.stack(&profile, profile.stack(sample.stack));
                let has_function = stack.iter().any(|name| name.contains(&format!("{colour}_part")));
                assert!(has_function || !has_label, "{colour}: {stack:?}");
            }
        }
    }
}

#[inline(never)]
fn calls_the_leaf(wanted: Duration) -> Duration {
    black_box(burn_red(black_box(wanted)))
}

fn has(stack: &[&str], part: &str) -> bool {
    stack.iter().any(|name| name.contains(part))
}

#[test]
fn the_hot_leaf_and_its_callers_are_there() {
    let _turn = turn();
    let names = Names::new();
    let session = cpu::start(&options(499)).expect("starts");
    until_sampled(ENOUGH * 2, || calls_the_leaf(MILLI * 20));
    let profile = session.finish();
    let hot: Vec<_> = events(&profile).iter().map(|stack| names.stack(&profile, stack)).collect();
    let hot: Vec<_> = hot.iter().filter(|stack| has(stack, "burn_red")).collect();
    // The clock is read by a system call of libc: a leaf of its own.
    let at_the_leaf = hot.iter().filter(|stack| stack[0].contains("burn_red")).count();
    assert_most("burn_red at the leaf", 70, hot.len(), at_the_leaf);
    let with_caller = hot.iter().filter(|stack| has(stack, "calls_the_leaf")).count();
    assert_most("with burn_red and its caller", 95, hot.len(), with_caller);
    let quality = profile.quality.expect("said");
    assert_eq!(profile.string(quality.engine), "timer", "the engine is the default");
}

#[inline(never)]
fn recurse(depth: u32) -> Duration {
    if depth == 0 {
        return burn_red(MILLI * 300);
    }
    let used = recurse(black_box(depth - 1));
    black_box(depth);
    used
}

#[test]
fn a_thousand_frames_are_rooted() {
    let _turn = turn();
    let names = Names::new();
    let session = cpu::start(&options(499)).expect("starts");
    until_sampled(ENOUGH * 2, || recurse(990));
    let profile = session.finish();
    let (mut all, mut whole) = (0, 0);
    for stack in events(&profile) {
        let count_of =
            |part: &str| names.stack(&profile, stack).iter().filter(|name| name.contains(part)).count();
        let (is_hot, is_rooted) = (count_of("burn_red") > 0, !is_truncated(&profile, stack));
        all += usize::from(is_hot);
        whole += usize::from(is_hot && is_rooted && count_of("recurse") >= 990);
    }
    assert_most("with all frames", 95, all, whole);
}

#[test]
fn a_stack_beyond_the_limit_is_marked_as_truncated() {
    let _turn = turn();
    let mut shallow = options(499);
    shallow.max_depth = 64;
    let names = Names::new();
    let session = cpu::start(&shallow).expect("starts");
    until_sampled(1, || recurse(200));
    let profile = session.finish();
    let deep = names.inclusive(&profile, "recurse");
    let quality = profile.quality.expect("said");
    let deep_stacks = profile.samples().filter(|sample| profile.stack(sample.stack).len() > 64);
    let observed: i64 = deep_stacks.map(|sample| sample.values[0]).sum();
    assert!(deep > Duration::ZERO && quality.truncated >= observed.unsigned_abs(), "{quality:?}");
    let is_marked = profile.functions().iter().any(|function| profile.string(function.name) == "[truncated]");
    assert!(is_marked);
    let deepest = profile.samples().map(|sample| profile.stack(sample.stack).len()).max();
    assert_eq!(deepest, Some(65));
}

#[inline(never)]
fn copy_much() {
    let from = vec![1u8; 64 << 10];
    let mut to = vec![0u8; 64 << 10];
    for _ in 0..1000 {
        // SAFETY: both have the length given.
        unsafe { libc::memcpy(to.as_mut_ptr().cast(), black_box(from.as_ptr()).cast(), from.len()) };
    }
    black_box(&mut to);
}

#[inline(never)]
fn allocate_much() {
    for _ in 0..500 {
        for size in 1..200usize {
            // SAFETY: allocates and frees.
            unsafe { libc::free(black_box(libc::malloc(black_box(size * 40)))) };
        }
    }
}

#[test]
fn time_inside_libc_is_kept_and_has_its_callers() {
    let _turn = turn();
    let names = Names::new();
    for (caller, work) in [("copy_much", copy_much as fn()), ("allocate_much", allocate_much)] {
        let session = cpu::start(&options(999)).expect("starts");
        until_sampled(ENOUGH * 2, work);
        let profile = session.finish();
        let is_in_libc = |stack: &&&[LocationId]| {
            let leaf = profile.location(stack[0]).mapping.map(|id| profile.mapping(id).filename);
            leaf.is_some_and(|file| profile.string(file).contains("libc"))
        };
        let all = events(&profile);
        let with_caller: Vec<_> =
            all.into_iter().filter(|stack| has(&names.stack(&profile, stack), caller)).collect();
        let in_libc = with_caller.iter().filter(is_in_libc).count();
        assert_most(&format!("{caller} in libc"), 50, with_caller.len(), in_libc);
    }
}

/// For threads that start after the capture begins.
#[test]
fn what_each_thread_used_is_delivered() {
    let _turn = turn();
    let names = Names::new();
    for (frequency, threads) in [(99, 1), (99, 4), (999, 1), (999, 4)] {
        let session = cpu::start(&options(frequency)).expect("starts");
        let used: Used = std::thread::scope(|scope| {
            let session = &session;
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    scope.spawn(move || red_part(session, &number.to_string(), MILLI * 1500 / threads))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
        });
        let seen = names.inclusive(&session.finish(), "red_part");
        let what = format!("{frequency} Hz on {threads} threads");
        assert_seen(&what, seen, used, timer_slack(frequency) * threads);
    }
}

#[test]
fn thread_names_and_labels_come_out_and_follow_futures() {
    let _turn = turn();
    let session = cpu::start(&options(499)).expect("starts");
    let seen = |key, text| labelled(&session.snapshot(), key, text);
    let (paid, plain, nightly) = std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name("checkout-7".into());
        let worker = named.spawn_scoped(scope, || {
            let scope = labels::scope([("route", "/pay")]);
            let paid = burn_red_until_seen(MILLI * 100, || seen("route", "/pay"));
            drop(scope);
            (paid, burn_red_until_seen(MILLI * 100, || seen("thread", "checkout-7")))
        });
        let (paid, plain) = worker.expect("starts").join().expect("no panic");
        let work = async { burn_blue_until_seen(MILLI * 100, || seen("job", "nightly")) };
        let mut future = Box::pin(work.with_labels(LabelSet::new([("job", "nightly")])));
        let poller = scope.spawn(move || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            future.as_mut().poll(&mut context)
        });
        let std::task::Poll::Ready(nightly) = poller.join().expect("no panic") else {
            panic!("it never waits")
        };
        (paid, plain, nightly)
    });
    let profile = session.finish();
    let thread = [paid, plain].into_iter().sum();
    for (key, text, used) in
        [("thread", "checkout-7", thread), ("route", "/pay", paid), ("job", "nightly", nightly)]
    {
        assert_seen(text, labelled(&profile, key, text), used, timer_slack(499));
    }
    let timeline = profile.timeline.as_ref().expect("kept");
    assert!(timeline.events.is_sorted_by_key(|event| event.time), "events are in order");
    let counted: i64 = timeline.events.iter().map(|event| event.value).sum();
    assert_eq!(counted, profile.total(1), "the timeline has all samples");
    let mut names = timeline.threads.iter().map(|thread| profile.string(thread.name));
    assert!(names.any(|name| name == "checkout-7"), "the timeline has the thread");
}

/// Uses CPU time until `session` has enough.
fn burn_until(session: &Session, is_so: impl Fn(&Profile) -> bool) -> Profile {
    const PATIENCE: Duration = Duration::from_secs(20);
    let begin = thread_cpu();
    loop {
        burn_red(MILLI * 50);
        let profile = session.snapshot();
        if is_so(&profile) || thread_cpu() - begin > PATIENCE {
            return profile;
        }
    }
}

#[test]
fn a_capture_that_fills_its_memory_goes_on() {
    let _turn = turn();
    let mut small = options(999);
    small.memory_budget = 8 << 10;
    let session = cpu::start(&small).expect("starts");
    let has_remark =
        |profile: &Profile| profile.comments().any(|comment| comment.starts_with("the timeline did not fit"));
    let full = burn_until(&session, has_remark);
    assert!(has_remark(&full) && full.timeline.is_none(), "{:?}", full.comments().collect::<Vec<_>>());
    let later = burn_until(&session, |profile| sampled(profile) > sampled(&full) + MILLI * 200);
    assert!(sampled(&later) > sampled(&full) + MILLI * 200);
}

/// Keeps this many windows of a quarter of a second.
fn start_recent(keep: usize) -> cpu::Recent {
    let mut recent = RecentOptions::default();
    (recent.sampling, recent.window, recent.keep) = (options(199), MILLI * 250, keep);
    cpu::start_recent(&recent).expect("starts")
}

#[test]
fn windows_older_than_those_kept_are_gone() {
    let _turn = turn();
    let (names, recorder) = (Names::new(), start_recent(10));
    let red = || names.inclusive(&recorder.last(Duration::MAX), "burn_red");
    until_sampled(1, || burn_red(MILLI));
    assert!(red() > Duration::ZERO);
    let end = Instant::now() + Duration::from_secs(60);
    while red() > Duration::ZERO && Instant::now() < end {
        std::thread::sleep(MILLI * 50);
    }
    assert_eq!(red(), Duration::ZERO);
}

#[test]
fn the_recent_past_answers_at_once() {
    let _turn = turn();
    // Five minutes, so that nothing expires before it is requested.
    let (names, recorder) = (Names::new(), start_recent(1200));
    let blue = || names.inclusive(&recorder.last(Duration::MAX), "burn_blue");
    let used = burn_blue_until_seen(MILLI * 800, blue);
    let everything = recorder.last(Duration::MAX);
    assert_seen("blue", names.inclusive(&everything, "burn_blue"), used, timer_slack(199));
    let last = recorder.last(MILLI);
    assert!(sampled(&last) <= sampled(&everything));
    assert!(last.header.duration_nanos < everything.header.duration_nanos);
}

/// Each has only this thread, and begins and ends right after one of its samples.
#[test]
fn ten_sessions_at_once_each_get_their_own_profile() {
    const FASTEST: u32 = 600;
    let _turn = turn();
    // While it exists, the timers are not changed.
    let fastest = cpu::start(&options(FASTEST)).expect("starts");
    let until_seen = |wanted| burn_red_until_seen(wanted, || sampled(&fastest.snapshot()));
    let sessions: Vec<_> = (1..=9u32)
        .map(|number| {
            let before = until_seen(MILLI * 10).after;
            (number * 60, before, thread_cpu(), cpu::start(&options(number * 60)).expect("starts"))
        })
        .collect();
    assert_eq!(cpu::status().readers, 10);
    for (frequency, before, start, session) in sessions {
        let after = before + until_seen(MILLI * 400).after;
        let used = Used { cpu: thread_cpu() - start, after };
        let profile = session.finish();
        assert_eq!(profile.header.period, i64::from(1_000_000_000 / frequency), "each has its own period");
        let slack = timer_slack(FASTEST) + Duration::from_secs(1) / frequency;
        assert_seen(&format!("{frequency} Hz"), sampled(&profile), used, slack);
    }
    drop(fastest);
    assert_eq!(cpu::status().readers, 0);
}
