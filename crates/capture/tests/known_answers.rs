//! Programs whose CPU time is known, function by function, and what the sampler says about them.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "calls into libc on purpose")]

mod support;

use flamelet_capture::cpu::{self, Options, RecentOptions};
use flamelet_capture::labels::{self, LabelFuture, LabelSet};
use flamelet_profile::{Profile, Quality};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{
    Names, Verdict, again_if_busy, assert_figure, assert_surely, burn_blue, burn_red, by_label, percent,
    process_cpu, sampled, thread_cpu, turn, verdict,
};

const MILLI: Duration = Duration::from_millis(1);

fn options(frequency: u32) -> Options {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    options
}

/// Alternates between red and blue, three to one; gives the CPU time of each.
///
/// The kernel looks at CPU timers at its tick, and a busy machine runs a thread for several short turns between
/// two ticks that find it: some ten milliseconds then go to whatever runs at the second one. Phases are longer
/// than that. (With phases of 20 to 90 ms on a machine with a load of 8, the standard deviation of the error
/// was 1.8 points on two threads and 2.2 on eight.)
fn split(total: Duration) -> (Duration, Duration) {
    let (mut red, mut blue) = (Duration::ZERO, Duration::ZERO);
    let mut slice = 80;
    while red + blue < total {
        red += burn_red(MILLI * 3 * slice);
        blue += burn_blue(MILLI * slice);
        slice = 80 + (slice * 7) % 11;
    }
    (red, blue)
}

/// The rule itself: a busy machine excuses what may be chance.
#[test]
fn what_is_beyond_chance_is_wrong_on_a_busy_machine_too() {
    let on_a_busy_machine = |figure: f64| {
        verdict(|| (std::panic::catch_unwind(|| assert_figure("it", figure, 70.0..80.0, 60.0..90.0)), true))
    };
    assert!(matches!(on_a_busy_machine(75.0), Verdict::Right));
    assert!(matches!(on_a_busy_machine(81.0), Verdict::Excused));
    assert!(matches!(on_a_busy_machine(91.0), Verdict::Wrong(_)));
}

#[test]
fn a_split_of_three_to_one_is_seen_on_one_two_and_eight_threads() {
    let _turn = turn();
    again_if_busy(|| {
        let names = Names::new();
        for (threads, each) in [(1, MILLI * 1500), (2, MILLI * 1500), (8, MILLI * 800)] {
            let session = cpu::start(&options(999)).expect("starts");
            let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || split(each))).collect();
            let (mut red, mut blue) = (Duration::ZERO, Duration::ZERO);
            for worker in workers {
                let (a, b) = worker.join().expect("no panic");
                (red, blue) = (red + a, blue + b);
            }
            let profile = session.finish();
            let (seen_red, seen_blue) =
                (names.inclusive(&profile, "burn_red"), names.inclusive(&profile, "burn_blue"));
            let (truth, seen) = (percent(red, red + blue), percent(seen_red, seen_red + seen_blue));
            println!("{threads} threads: red {truth:.1} %, seen {seen:.1} %, {:?}", profile.quality);
            assert_figure("the share of red", seen - truth, -3.0..3.0, -15.0..15.0);
        }
    });
}

#[inline(never)]
fn calls_the_leaf(wanted: Duration) -> Duration {
    black_box(burn_red(black_box(wanted)))
}

#[test]
fn the_hot_leaf_and_its_callers_are_there() {
    let _turn = turn();
    again_if_busy(|| {
        let names = Names::new();
        let session = cpu::start(&options(499)).expect("starts");
        let used = calls_the_leaf(MILLI * 500);
        let profile = session.finish();
        let hot = names.inclusive(&profile, "burn_red");
        // The clock is read by a system call of libc: a leaf of its own.
        let leaf = names.at_leaf(&profile, "burn_red");
        assert_figure("with burn_red", percent(hot, used), 95.0.., 70.0..);
        assert_figure("burn_red at the leaf", percent(leaf, used), 80.0.., 50.0..);
        let with_test = names.sum(&profile, |stack| {
            stack.iter().any(|name| name.contains("burn_red"))
                && stack.iter().any(|name| name.contains("calls_the_leaf"))
        });
        assert_figure("with both", percent(with_test, used), 95.0.., 70.0..);
        let quality = profile.quality.expect("said");
        assert_surely(profile.string(quality.engine) == "timer", "the engine is the default");
        let doubts = profile.comments().filter(|comment| comment.contains("known by few samples"));
        assert_eq!(doubts.count(), 0, "each tick has its sample");
        assert_figure("truncated", truncated(quality), ..=1.0, ..25.0);
    });
}

/// The share of stacks that do not reach their thread's start, in percent.
fn truncated(quality: Quality) -> f64 {
    quality.truncated as f64 * 100.0 / quality.samples.max(1) as f64
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
    again_if_busy(|| {
        let names = Names::new();
        let session = cpu::start(&options(499)).expect("starts");
        let used = recurse(990);
        let profile = session.finish();
        let deep =
            names.sum(&profile, |stack| stack.iter().filter(|name| name.contains("recurse")).count() >= 990);
        assert_figure("with all frames", percent(deep, used), 95.0.., 70.0..);
        // Of any thread, such as one that is being born.
        assert_figure("truncated", truncated(profile.quality.expect("said")), ..=2.0, ..25.0);
    });
}

#[test]
fn a_stack_beyond_the_limit_is_marked_as_truncated() {
    let _turn = turn();
    let mut shallow = options(499);
    shallow.max_depth = 64;
    let session = cpu::start(&shallow).expect("starts");
    recurse(200);
    let profile = session.finish();
    let quality = profile.quality.expect("said");
    assert!(quality.truncated * 10 > quality.samples * 9, "{quality:?}");
    let is_marked = profile.functions().iter().any(|function| profile.string(function.name) == "[truncated]");
    assert!(is_marked);
    let deepest = profile.samples().map(|sample| profile.stack(sample.stack).len()).max();
    assert_eq!(deepest, Some(65));
}

#[inline(never)]
fn copy_for(wanted: Duration) -> Duration {
    let from = vec![1u8; 64 << 10];
    let mut to = vec![0u8; 64 << 10];
    let start = thread_cpu();
    while thread_cpu() - start < wanted {
        for _ in 0..100 {
            // SAFETY: both have the length given.
            unsafe { libc::memcpy(to.as_mut_ptr().cast(), black_box(from.as_ptr()).cast(), from.len()) };
        }
        black_box(&mut to);
    }
    thread_cpu() - start
}

#[inline(never)]
fn allocate_for(wanted: Duration) -> Duration {
    let start = thread_cpu();
    while thread_cpu() - start < wanted {
        for size in 1..200usize {
            // SAFETY: allocates and frees.
            unsafe { libc::free(black_box(libc::malloc(black_box(size * 40)))) };
        }
    }
    thread_cpu() - start
}

#[test]
fn time_inside_libc_is_kept_and_has_its_callers() {
    let _turn = turn();
    again_if_busy(|| {
        let names = Names::new();
        let session = cpu::start(&options(999)).expect("starts");
        let used = [copy_for(MILLI * 400), allocate_for(MILLI * 400)];
        let profile = session.finish();
        for (caller, used) in ["copy_for", "allocate_for"].iter().zip(used) {
            let in_libc: u64 = profile
                .samples()
                .filter(|sample| {
                    let stack = profile.stack(sample.stack);
                    let leaf = profile.location(stack[0]).mapping.map(|id| profile.mapping(id).filename);
                    let is_libc = leaf.is_some_and(|file| profile.string(file).contains("libc"));
                    is_libc && names.stack(&profile, stack).iter().any(|name| name.contains(caller))
                })
                .map(|sample| sample.values[1].unsigned_abs())
                .sum();
            let share = percent(Duration::from_nanos(in_libc), used);
            assert_figure(&format!("{caller} in libc"), share, 70.0.., 40.0..);
        }
    });
}

#[test]
fn the_delivered_share_is_at_least_97_percent() {
    let _turn = turn();
    again_if_busy(|| {
        for (frequency, threads) in [(99, 1), (99, 4), (999, 1), (999, 4)] {
            let session = cpu::start(&options(frequency)).expect("starts");
            let start = process_cpu();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| burn_red(MILLI * 1500 / threads));
                }
            });
            let used = process_cpu() - start;
            let profile = session.finish();
            let share = percent(sampled(&profile), used);
            println!("{frequency} Hz, {threads} threads: {share:.1} % of {used:?}");
            // Each thread's last period may be missing, or its first be early: by chance half a sample a thread.
            let slack = 150.0 * f64::from(threads).sqrt() / f64::from(frequency) / used.as_secs_f64();
            let what = format!("delivered of {frequency} Hz on {threads} threads");
            assert_figure(&what, share, 97.0 - slack..103.0 + slack, 70.0..130.0);
        }
    });
}

#[test]
fn thread_names_and_labels_come_out_and_follow_futures() {
    let _turn = turn();
    again_if_busy(|| {
        let session = cpu::start(&options(499)).expect("starts");
        let named = std::thread::Builder::new().name("checkout-7".into());
        let worker = named.spawn(|| {
            let scope = labels::scope([("route", "/pay")]);
            let paid = burn_red(MILLI * 200);
            drop(scope);
            (paid, burn_red(MILLI * 200))
        });
        let (paid, plain) = worker.expect("starts").join().expect("no panic");
        let mut future =
            Box::pin(async { burn_blue(MILLI * 200) }.with_labels(LabelSet::new([("job", "nightly")])));
        let poller = std::thread::spawn(move || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            future.as_mut().poll(&mut context)
        });
        let std::task::Poll::Ready(nightly) = poller.join().expect("no panic") else {
            panic!("it never waits")
        };
        let profile = session.finish();
        let threads = by_label(&profile, "thread");
        let share = percent(threads.get("checkout-7").copied().unwrap_or_default(), paid + plain);
        assert_figure("checkout-7", share, 90.0..110.0, 60.0..140.0);
        for (key, value, used) in [("route", "/pay", paid), ("job", "nightly", nightly)] {
            let labelled = by_label(&profile, key);
            let share = percent(labelled.get(value).copied().unwrap_or_default(), used);
            assert_figure(key, share, 88.0..112.0, 60.0..140.0);
        }
        let timeline = profile.timeline.as_ref().expect("kept");
        assert_surely(timeline.events.is_sorted_by_key(|event| event.time), "events are in order");
        let counted: i64 = timeline.events.iter().map(|event| event.value).sum();
        assert_surely(counted == profile.total(0), "the timeline has all samples");
        let mut names = timeline.threads.iter().map(|thread| profile.string(thread.name));
        assert_surely(names.any(|name| name == "checkout-7"), "the timeline has the thread");
    });
}

/// Burns until `session` says so.
fn burn_until(session: &cpu::Session, is_so: impl Fn(&Profile) -> bool) -> Profile {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        burn_red(MILLI * 50);
        let profile = session.snapshot();
        if is_so(&profile) || Instant::now() > end {
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

/// Keeps two and a half seconds.
fn start_recent() -> cpu::Recent {
    let mut recent = RecentOptions::default();
    (recent.sampling, recent.window, recent.keep) = (options(199), MILLI * 250, 10);
    cpu::start_recent(&recent).expect("starts")
}

#[test]
fn windows_older_than_those_kept_are_gone() {
    let _turn = turn();
    let (names, recorder) = (Names::new(), start_recent());
    let end = Instant::now() + Duration::from_secs(60);
    let red = || names.inclusive(&recorder.last(Duration::MAX), "burn_red");
    while red() == Duration::ZERO && Instant::now() < end {
        burn_red(MILLI * 50);
    }
    assert!(red() > Duration::ZERO);
    while red() > Duration::ZERO && Instant::now() < end {
        std::thread::sleep(MILLI * 50);
    }
    assert_eq!(red(), Duration::ZERO);
}

#[test]
fn the_recent_past_answers_at_once() {
    let _turn = turn();
    again_if_busy(|| {
        let (names, recorder) = (Names::new(), start_recent());
        // On a machine that is busy with other things less, so that it is not over before it is asked for.
        let (mut used, begin) = (Duration::ZERO, Instant::now());
        while used < MILLI * 800 && begin.elapsed() < MILLI * 1500 {
            used += burn_blue(MILLI * 20);
        }
        let everything = recorder.last(Duration::MAX);
        let blue = names.inclusive(&everything, "burn_blue");
        assert_figure("blue", percent(blue, used), 85.0.., 50.0..);
        let last = recorder.last(MILLI);
        assert!(sampled(&last) <= sampled(&everything));
        assert!(last.header.duration_nanos < everything.header.duration_nanos);
    });
}

#[test]
fn ten_sessions_at_once_each_get_their_own_profile() {
    let _turn = turn();
    again_if_busy(|| {
        let burner = std::thread::spawn(|| burn_red(MILLI * 2200));
        let sessions: Vec<_> = (1..=10u32)
            .map(|number| {
                std::thread::spawn(move || {
                    let session = cpu::start(&options(number * 60)).expect("starts");
                    let start = process_cpu();
                    burn_blue(MILLI * 10 * number);
                    while process_cpu() - start < MILLI * 900 {
                        std::thread::sleep(MILLI * 5);
                    }
                    let used = process_cpu() - start;
                    (session.finish(), used)
                })
            })
            .collect();
        for (number, session) in (1..=10u32).zip(sessions) {
            let (profile, used) = session.join().expect("no panic");
            let period = i64::from(1_000_000_000 / (number * 60));
            assert_surely(profile.header.period == period, "each has its own period");
            let share = percent(sampled(&profile), used);
            // Few samples at 60 Hz: four standard deviations of chance.
            let noise = 400.0 / (used.as_secs_f64() * f64::from(number * 60)).sqrt();
            let within = |points: f64| 100.0 - points - noise..100.0 + points + noise;
            assert_figure(&format!("{} Hz", number * 60), share, within(3.0), within(30.0));
        }
        burner.join().expect("no panic");
        assert_eq!(cpu::status().readers, 0);
    });
}
