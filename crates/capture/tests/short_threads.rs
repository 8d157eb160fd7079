//! Threads that make their own timers as they start: short ones are sampled like all others.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(unsafe_code, reason = "takes the place of a C function")]

mod support;

use flamelet_capture::cpu::{self, Options, Session};
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};
use support::{Names, thread_cpu, turn};

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, as they are.
    unsafe { cpu::pthread_create(thread, attributes, start, argument) }
}

const DEADLINE: Duration = Duration::from_secs(300);

fn start(hertz: u32) -> Session {
    let mut options = Options::with_frequency(hertz);
    options.overhead_budget = None;
    cpu::start(&options).expect("started")
}

/// Runs a thread that uses a millisecond; returns what the kernel has charged it.
fn short(burn: fn(Duration) -> Duration) -> Duration {
    let work = move || {
        burn(Duration::from_millis(1));
        thread_cpu()
    };
    std::thread::spawn(work).join().expect("no panic")
}

/// Gives this thread and those that it starts real-time priority; returns whether this user may. Ordinary threads mostly
/// begin right after a tick that took the CPU from another program, and are gone before the next one.
fn begins_between_ticks() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: this thread, and a parameter that outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 }
}

/// Three threads of one kind for each of the other, until there are enough samples: what is seen is in proportion to what
/// the kernel has charged, whatever else runs on the machine.
#[test]
fn threads_of_a_millisecond_are_seen_in_proportion() {
    let _turn = turn();
    let names = Names::new();
    let session = start(999);
    let is_prompt = begins_between_ticks();
    let (mut red, mut blue) = (Duration::ZERO, Duration::ZERO);
    let begin = Instant::now();
    while red + blue < Duration::from_secs(3) {
        assert!(begin.elapsed() < DEADLINE, "threads do not run");
        red += short(support::burn_red) + short(support::burn_red) + short(support::burn_red);
        blue += short(support::burn_blue);
    }
    let interval = cpu::status().look_interval;
    let profile = session.finish();
    let seen = ["burn_red", "burn_blue"].map(|name| names.inclusive(&profile, name).as_secs_f64());
    let used = [red, blue].map(|used| used.as_secs_f64());
    println!("seen {seen:?} s of {used:?} s, looked for threads every {interval:?}");
    assert!(
        interval >= Duration::from_millis(500),
        "threads that have their timers are not looked for: {interval:?}"
    );
    let share = (seen[0] + seen[1]) / (used[0] + used[1]);
    assert!(share > 0.0 && share < 1.4, "{share} of the CPU time is seen");
    if is_prompt {
        // Some 750 ticks: these limits are more than six standard deviations away.
        let shares = [seen[0] / (seen[0] + seen[1]), used[0] / (used[0] + used[1])];
        assert!((shares[0] - shares[1]).abs() < 0.15, "{shares:?}");
        assert!(share > 0.6, "{share} of the CPU time is seen");
    }
}

/// The list of threads is not read often, and stacks look as they do without the hook.
#[test]
fn threads_are_not_looked_for() {
    let _turn = turn();
    let names = Names::new();
    let session = start(499);
    let begin = Instant::now();
    while cpu::status().look_interval < Duration::from_secs(1) {
        assert!(begin.elapsed() < DEADLINE, "{:?}", cpu::status());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::spawn(|| support::burn_red(Duration::from_millis(300))).join().expect("no panic");
    let profile = session.finish();
    let seen = names.inclusive(&profile, "burn_red");
    assert!(seen > Duration::from_millis(100), "{seen:?} of a thread that lived between two looks");
    for sample in profile.samples() {
        let stack = names.stack(&profile, profile.stack(sample.stack));
        // A thread that is interrupted before or after its work is inside the hook.
        let is_work = stack.iter().any(|name| name.contains("burn_red"));
        assert!(!is_work || !stack.iter().any(|name| name.contains("starts")), "{stack:?}");
    }
}

/// Threads that start while captures begin and end, and that end in other ways than by returning.
#[test]
fn no_timer_is_left_behind() {
    let _turn = turn();
    // The C library unwinds a thread that leaves in this way.
    extern "C-unwind" fn leave(_: *mut c_void) -> *mut c_void {
        support::burn_red(Duration::from_micros(100));
        // SAFETY: ends this thread, which has nothing to drop.
        unsafe { libc::pthread_exit(std::ptr::null_mut()) }
    }
    let leave: extern "C-unwind" fn(*mut c_void) -> *mut c_void = leave;
    // SAFETY: the same type for the C library, which knows nothing of this difference.
    let leave: extern "C" fn(*mut c_void) -> *mut c_void = unsafe { std::mem::transmute(leave) };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let is_over = &is_over;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    short(|_| support::burn_blue(Duration::from_micros(50)));
                    // SAFETY: a thread that is joined at once.
                    unsafe {
                        let mut thread = std::mem::zeroed();
                        assert_eq!(
                            libc::pthread_create(
                                &raw mut thread,
                                std::ptr::null(),
                                leave,
                                std::ptr::null_mut()
                            ),
                            0
                        );
                        libc::pthread_join(thread, std::ptr::null_mut());
                    }
                }
            });
        }
        for round in 0..100 {
            let session = start(if round % 2 == 0 { 99 } else { 999 });
            let faster = (round % 3 == 0).then(|| start(1000));
            std::thread::sleep(Duration::from_millis(round % 7));
            drop(faster);
            drop(session.finish());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Timers of this process that the kernel still has.
    let timers = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
    assert_eq!(timers.lines().filter(|line| line.starts_with("ID:")).count(), 0, "{timers}");
}

/// In the child of a fork the parent's threads are forgotten, and its own are sampled.
#[test]
fn a_child_samples_its_own_threads() {
    let _turn = turn();
    let session = start(499);
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    assert!(flamelet_test_support::holds_in_child(|| {
        let names = Names::new();
        let session = start(499);
        let begin = Instant::now();
        let mut used = Duration::ZERO;
        while used < Duration::from_millis(400) && begin.elapsed() < DEADLINE {
            used +=
                std::thread::spawn(|| support::burn_red(Duration::from_millis(50))).join().expect("no panic");
        }
        names.inclusive(&session.finish(), "burn_red") > used / 4
    }));
    drop(end);
    let _ = other.join().expect("no panic");
    drop(session.finish());
}
