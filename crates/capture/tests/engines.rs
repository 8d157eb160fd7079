//! Every engine, and what happens if the requested one is not available.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "asks the kernel what it allows")]

mod support;

use flamelet_capture::cpu::{self, Engine, Options, Session};
use flamelet_capture::labels;
use flamelet_profile::{Label, LocationId, Profile};
use std::io::Read;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};
use support::{
    ENOUGH, Names, Used, assert_most, assert_seen, burn_red, burn_red_until_seen, burn_until_process_seen,
    events, is_truncated, labelled, process_cpu, sampled, timer_slack, turn, until_sampled,
};

fn options(engine: Engine, frequency: u32) -> Options {
    let mut options = Options::with_frequency(frequency);
    options.engine = engine;
    options.overhead_budget = None;
    options
}

/// Uses CPU time with its own label until samples have that label.
#[inline(never)]
fn labelled_work(session: &Session, number: u32, wanted: Duration) -> Used {
    let number = number.to_string();
    let _scope = labels::scope([("worker", number.clone())]);
    burn_red_until_seen(wanted, || labelled(&session.snapshot(), "worker", &number))
}

/// Returns a profile of this many threads that run when it starts, and the CPU time of the threads and the process.
struct Delivered {
    profile: Profile,
    by_threads: Used,
    by_process: Used,
    threads: u32,
}

impl Delivered {
    fn by(engine: Engine, frequency: u32, threads: u32) -> Self {
        let (begin, process_start) = (Barrier::new(threads as usize + 1), process_cpu());
        let session = OnceLock::new();
        let by_threads = std::thread::scope(|scope| {
            let worker = |number: u32| {
                begin.wait();
                // Again, now that the session runs.
                begin.wait();
                Some(labelled_work(session.get()?, number, Duration::from_secs(2) / threads))
            };
            let workers: Vec<_> = (0..threads).map(|number| scope.spawn(move || worker(number))).collect();
            begin.wait();
            let started = cpu::start(&options(engine, frequency)).map(|new| session.set(new));
            begin.wait();
            started.expect("starts").expect("the first");
            workers.into_iter().map(|worker| worker.join().expect("no panic").expect("there")).sum()
        });
        let session = session.into_inner().expect("set above");
        let after = burn_until_process_seen(|| sampled(&session.snapshot()));
        let by_process = Used { cpu: process_cpu() - process_start, after };
        Self { profile: session.finish(), by_threads, by_process, threads }
    }

    /// Panics unless samples stand for the CPU time that was used, and are of the code that used it.
    fn check(&self, what: &str, frequency: u32) {
        let is_worker = |label: &Label| self.profile.string(label.key) == "worker";
        let samples = self.profile.samples();
        let of_workers = samples.filter(|sample| self.profile.labels(sample.labels).iter().any(is_worker));
        let (names, profile) = (Names::new(), &self.profile);
        let mut seen = 0;
        for sample in of_workers {
            let stack = names.stack(profile, profile.stack(sample.stack));
            assert!(stack.iter().any(|name| name.contains("labelled_work")), "{what}: {stack:?}");
            seen += sample.values[1].unsigned_abs();
        }
        let seen = Duration::from_nanos(seen);
        match engine_of(profile).as_str() {
            "timer" => assert_seen(what, seen, self.by_threads, timer_slack(frequency) * self.threads),
            // Little else happens before and during its start.
            "setitimer" => {
                let slack = Duration::from_secs(1) / frequency + Duration::from_millis(50);
                assert_seen(what, sampled(profile), self.by_process, slack);
            }
            // The kernel's clock for it also runs while other processes have the CPU, and it may drop samples.
            _ => {
                let period = Duration::from_nanos(profile.header.period.unsigned_abs());
                assert!(seen >= period * self.threads, "{what}: {seen:?}");
            }
        }
    }
}

fn engine_of(profile: &Profile) -> String {
    profile.string(profile.quality.expect("said").engine).to_string()
}

/// `setitimer` gets the share right too, because each of its samples stands for the time since the previous one. At
/// 999 Hz there are only few of them, one per tick, which cannot be changed.
#[test]
fn every_engine_delivers_at_both_rates_on_eight_threads() {
    let _turn = turn();
    for engine in [Engine::Timer, Engine::Perf, Engine::Setitimer] {
        for frequency in [99, 999] {
            let delivered = Delivered::by(engine, frequency, 8);
            if engine == Engine::Perf && engine_of(&delivered.profile) != "perf" {
                let comments = delivered.profile.comments().collect::<Vec<_>>();
                flamelet_test_support::skip!("perf_event_open is not allowed here: {comments:?}");
                continue;
            }
            assert_eq!(engine_of(&delivered.profile), engine.name(), "it is the engine of choice");
            delivered.check(&format!("{} at {frequency} Hz", engine.name()), frequency);
        }
    }
}

#[test]
fn captures_that_start_and_threads_that_are_found_interrupt_no_sleep() {
    let _turn = turn();
    let sleep = |micros: i64| {
        let time = libc::timespec { tv_sec: 0, tv_nsec: micros * 1000 };
        // SAFETY: sleeps.
        let result = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    };
    std::thread::scope(|scope| {
        // Nearly always asleep, each time after some CPU time; one of them is new every time.
        scope.spawn(|| {
            for _ in 0..60 {
                burn_red(Duration::from_millis(2));
                sleep(5_000);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        burn_red(Duration::from_millis(6));
                        sleep(60_000);
                    });
                });
            }
        });
        for _ in 0..200 {
            let session = cpu::start(&options(Engine::Timer, 999)).expect("starts");
            std::thread::sleep(Duration::from_millis(15));
            drop(session.finish());
        }
    });
}

#[test]
fn no_engine_interrupts_sleeps_and_reads() {
    let _turn = turn();
    for engine in [Engine::Timer, Engine::Setitimer, Engine::Perf] {
        if engine == Engine::Perf && kernel_side_is_allowed() {
            flamelet_test_support::skip!(
                "perf events see the kernel's side here, where a sample may interrupt a sleep"
            );
            continue;
        }
        let session = cpu::start(&options(engine, 999)).expect("starts");
        support::sleep_and_read_while_busy(200);
        assert!(session.finish().sample_count() > 0);
    }
}

/// Sets the soft limit of a resource; returns the previous one.
fn set_limit(resource: libc::__rlimit_resource_t, soft: u64) -> u64 {
    // SAFETY: the structure is written and read by the calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(resource, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, soft.min(limit.rlim_max));
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
        before
    }
}

/// A thread gets its timer only after it has been busy for a while: its earlier CPU time has no samples, and no stack
/// gets the weight of it.
#[test]
fn a_thread_whose_timer_comes_late_has_no_heavy_sample() {
    const AT_LEAST: Duration = Duration::from_millis(1500);
    const PATIENCE: Duration = Duration::from_secs(60);
    let _turn = turn();
    let session = cpu::start(&options(Engine::Timer, 199)).expect("starts");
    let is_said = || session.snapshot().comments().any(|comment| comment.contains("could not be sampled"));
    let limit = set_limit(libc::RLIMIT_SIGPENDING, 0);
    let begin = Instant::now();
    let work = || {
        let mut unseen = burn_red(AT_LEAST);
        // The collector says so once a second, if it runs by then.
        while !is_said() && begin.elapsed() < PATIENCE {
            unseen += burn_red(Duration::from_millis(50));
        }
        set_limit(libc::RLIMIT_SIGPENDING, limit);
        // Until it is found and sampled.
        let samples = cpu::status().samples;
        while cpu::status().samples < samples + 3 && begin.elapsed() < PATIENCE * 2 {
            burn_red(Duration::from_millis(20));
        }
        unseen
    };
    let unseen = std::thread::scope(|scope| {
        let late = std::thread::Builder::new().name("late".into()).spawn_scoped(scope, work);
        late.expect("starts").join().expect("no panic")
    });
    assert!(is_said(), "{:?}", session.snapshot().comments().collect::<Vec<_>>());
    let profile = session.finish();
    let seen = support::by_label(&profile, "thread").get("late").copied().unwrap_or_default();
    println!("{seen:?} seen, {unseen:?} before");
    assert!(seen > Duration::ZERO && seen < unseen * 2 / 3, "{seen:?}, {unseen:?} before");
}

#[test]
fn a_thread_that_blocks_the_signal_is_named() {
    let _turn = turn();
    let session = cpu::start(&options(Engine::Timer, 199)).expect("starts");
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let blocks = std::thread::Builder::new().name("blocks-it".into()).spawn(move || {
        // SAFETY: changes the signals that this thread blocks.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut signals, libc::SIGPROF);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()), 0);
        }
        burn_red(Duration::from_millis(600));
        tell.send(()).expect("it waits");
        let _ = wait.recv();
    });
    let blocks = blocks.expect("starts");
    told.recv().expect("no panic");
    let profile = session.finish();
    drop(end);
    blocks.join().expect("no panic");
    let comments: Vec<&str> = profile.comments().collect();
    let is_named =
        |comment: &&str| comment.contains("block SIGPROF (at the moment: ") && comment.contains("blocks-it");
    assert!(comments.iter().any(is_named), "{comments:?}");
    assert!(
        !comments.iter().any(|comment| comment.contains("flamelet")),
        "the collector, which ends: {comments:?}"
    );
}

#[test]
fn memory_that_the_kernel_refuses_is_an_error_and_no_abort() {
    let _turn = turn();
    let status = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages: u64 = status.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number");
    let limit = set_limit(libc::RLIMIT_AS, (pages << 12) + (1 << 30));
    let mut huge = options(Engine::Timer, 99);
    (huge.max_depth, huge.buffered_samples) = (1 << 16, 1 << 20);
    let refused = cpu::start(&huge);
    set_limit(libc::RLIMIT_AS, limit);
    let error = refused.expect_err("140 GB are not there");
    assert_eq!(error.kind(), flamelet_capture::ErrorKind::Denied);
    let text = error.to_string();
    assert!(text.contains("buffered_samples") && !text.contains('\n'), "{text}");
    drop(cpu::start(&options(Engine::Timer, 99)).expect("starts").finish());
}

/// A change of the period must not forget the time since the last sample.
#[test]
fn setitimer_loses_no_time_when_its_period_changes() {
    const FREQUENCY: u32 = 20;
    let _turn = turn();
    let session = cpu::start(&options(Engine::Setitimer, FREQUENCY)).expect("starts");
    burn_until_process_seen(|| sampled(&session.snapshot()));
    let (before, start) = (sampled(&session.snapshot()), process_cpu());
    for _ in 0..30 {
        // Less than either period, so that most changes come between two samples.
        let faster = cpu::start(&options(Engine::Setitimer, 25)).expect("starts");
        burn_red(Duration::from_millis(15));
        drop(faster);
    }
    let after = burn_until_process_seen(|| sampled(&session.snapshot()));
    let used = Used { cpu: process_cpu() - start, after };
    // Whole periods are counted, and the previous sample may have been a while ago.
    let slack = Duration::from_secs(1) / FREQUENCY * 2;
    assert_seen("with changes", sampled(&session.finish()) - before, used, slack);
}

/// Returns whether a perf event of this thread may count its time in the kernel.
fn kernel_side_is_allowed() -> bool {
    let mut attributes = [0u64; 8];
    const SOFTWARE_AND_SIZE: u64 = 1 | 64 << 32;
    const TASK_CLOCK: u64 = 1;
    (attributes[0], attributes[1], attributes[2]) = (SOFTWARE_AND_SIZE, TASK_CLOCK, 1_000_000_000);
    // SAFETY: the structure has the size that it says; the new descriptor is closed.
    unsafe {
        let file = libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0);
        file >= 0 && libc::close(file as libc::c_int) == 0
    }
}

#[test]
fn kernel_frames_come_along_where_the_kernel_gives_them() {
    let _turn = turn();
    if !kernel_side_is_allowed() {
        flamelet_test_support::skip!("perf events do not see the kernel's side here");
        return;
    }
    kernel_frames_come_along();
}

fn kernel_frames_come_along() {
    let names = Names::new();
    let session = cpu::start(&options(Engine::Perf, 999)).expect("starts");
    until_sampled(ENOUGH * 2, read_zeros);
    let profile = session.finish();
    assert_eq!(engine_of(&profile), "perf");
    let reads =
        |stack: &&&[LocationId]| names.stack(&profile, stack).iter().any(|name| name.contains("read_zeros"));
    let all = events(&profile);
    let all: Vec<_> = all.iter().filter(reads).collect();
    let is_kernel = |stack: &&&&[LocationId]| profile.location(stack[0]).address >> 63 == 1;
    assert_most("in the kernel", 50, all.len(), all.iter().filter(is_kernel).count());
    let mapping = profile.mappings().iter().map(|mapping| profile.string(mapping.filename));
    assert!(mapping.into_iter().any(|name| name == "[kernel.kallsyms]"), "the kernel is a mapping");
    // The user part is complete below the kernel part.
    let is_whole = |stack: &&&&[LocationId]| !is_truncated(&profile, stack);
    assert_most("whole", 90, all.len(), all.iter().filter(is_whole).count());
}

/// Uses CPU time in the kernel.
#[inline(never)]
fn read_zeros() {
    let zeros = std::fs::File::open("/dev/zero").expect("there");
    let mut bytes = vec![0u8; 1 << 16];
    for _ in 0..100 {
        (&zeros).read_exact(&mut bytes).expect("zeros");
    }
}

#[test]
fn under_seccomp_the_choice_of_perf_falls_back_and_reports_it() {
    let _turn = turn();
    let thread = std::thread::spawn(|| {
        flamelet_test_support::deny_call(libc::SYS_perf_event_open);
        Delivered::by(Engine::Perf, 199, 2)
    });
    let delivered = thread.join().expect("no panic");
    assert_eq!(engine_of(&delivered.profile), "timer", "it falls back");
    assert!(says(&delivered.profile, "engine perf is not available"), "it says so");
    delivered.check("timer instead of perf", 199);
}

/// The kernel refuses timers to a process that may have no pending signals; the interval timer's need no such right.
#[test]
fn without_timers_for_threads_the_choice_falls_back_to_the_interval_timer_and_reports_it() {
    let _turn = turn();
    let limit = set_limit(libc::RLIMIT_SIGPENDING, 0);
    let result = std::panic::catch_unwind(|| Delivered::by(Engine::Auto, 199, 2));
    set_limit(libc::RLIMIT_SIGPENDING, limit);
    let delivered = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(engine_of(&delivered.profile), "setitimer", "it falls back");
    assert!(says(&delivered.profile, "engine timer is not available: "), "it says so");
    delivered.check("the interval timer instead of timers", 199);
}

fn says(profile: &Profile, part: &str) -> bool {
    profile.comments().any(|comment| comment.contains(part))
}

#[test]
fn a_choice_that_comes_too_late_is_reported() {
    let _turn = turn();
    let first = cpu::start(&options(Engine::Timer, 99)).expect("starts");
    let second = cpu::start(&options(Engine::Setitimer, 99)).expect("starts");
    let indifferent = cpu::start(&options(Engine::Auto, 99)).expect("starts");
    let said = |session: cpu::Session| {
        let profile = session.finish();
        assert_eq!(engine_of(&profile), "timer");
        let remarks = profile.comments().filter(|comment| comment.contains("was requested"));
        remarks.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said(second), ["engine setitimer was requested while timer was running"]);
    assert!(said(first).is_empty() && said(indifferent).is_empty());
}

/// The first capture determines the buffer, which is not changed while it is in use.
#[test]
fn a_larger_buffer_requested_too_late_is_reported() {
    let _turn = turn();
    let first = cpu::start(&options(Engine::Timer, 99)).expect("starts");
    let mut larger = options(Engine::Timer, 99);
    (larger.max_depth, larger.buffered_samples) = (1 << 14, 1 << 14);
    let second = cpu::start(&larger).expect("starts").finish();
    let said = |name: &str| says(&second, &format!("{name} = 16384 was requested while "));
    assert!(said("max_depth") && said("buffered_samples"), "{:?}", second.comments().collect::<Vec<_>>());
    assert!(!says(&first.finish(), "was requested"));
}

#[test]
fn an_overhead_budget_that_cannot_be_kept_lowers_the_rate_and_reports_it() {
    let _turn = turn();
    let mut options = Options::with_frequency(5000);
    options.overhead_budget = Some(0.001);
    let session = cpu::start(&options).expect("starts");
    let start = Instant::now();
    while cpu::status().frequency == 5000 && start.elapsed() < Duration::from_secs(120) {
        burn_red(Duration::from_millis(100));
    }
    assert!(cpu::status().frequency < 5000);
    let profile = session.finish();
    let said =
        |profile: &Profile| profile.comments().any(|comment| comment.contains("frequency was lowered"));
    assert!(said(&profile), "{:?}", profile.comments().collect::<Vec<_>>());
    // Many short captures cost as much as a long one.
    let next = cpu::start(&options).expect("starts");
    assert!(cpu::status().frequency < 5000);
    assert!(said(&next.finish()));
    options.overhead_budget = None;
    let unbound = cpu::start(&options).expect("starts");
    assert_eq!(cpu::status().frequency, 5000);
    drop(unbound);
}

/// Threads that come and go cost time to find, and hardly any samples.
#[test]
fn looks_that_cost_more_than_the_budget_are_rarer_and_reported() {
    let _turn = turn();
    let mut options = Options::with_frequency(19);
    options.overhead_budget = Some(0.001);
    let session = cpu::start(&options).expect("starts");
    let start = Instant::now();
    let usual = Duration::from_millis(100);
    while cpu::status().look_interval <= usual && start.elapsed() < Duration::from_secs(120) {
        (0..20).for_each(|_| std::thread::spawn(|| ()).join().expect("no panic"));
    }
    assert!(cpu::status().look_interval > usual);
    let profile = session.finish();
    assert!(
        says(&profile, "new threads were looked for every"),
        "{:?}",
        profile.comments().collect::<Vec<_>>()
    );
    // Many short captures cost as much as a long one.
    let next = cpu::start(&options).expect("starts");
    assert!(cpu::status().look_interval > usual);
    assert!(says(&next.finish(), "new threads were looked for every"));
    options.overhead_budget = None;
    let unbound = cpu::start(&options).expect("starts");
    assert!(cpu::status().look_interval <= usual);
    drop(unbound);
}
