//! Everything at once, for as long as you like: `FLAMELET_STORM_SECONDS=180 cargo test -p flamelet-capture --test
//! storm` (a few seconds without the variable). Nothing may crash, hang, or grow without end.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "forks, signals and the loader, by C functions")]

mod support;

use flamelet_capture::cpu::{self, Engine, Options};
use flamelet_capture::labels;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{burn_blue, burn_red, turn};

const MILLI: Duration = Duration::from_millis(1);

/// How long a storm lasts.
fn length() -> Duration {
    let seconds = std::env::var("FLAMELET_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(6)) / 2
}

/// A disturbance, and how often it happened.
struct Disturbance {
    name: &'static str,
    once: fn(),
    times: AtomicU64,
}

static DISTURBANCES: [Disturbance; 10] = [
    Disturbance::new("threads", threads_come_and_go),
    Disturbance::new("allocations", allocate),
    Disturbance::new("libraries", load_and_unload),
    Disturbance::new("backtraces", take_backtraces),
    Disturbance::new("panics", panic_and_catch),
    Disturbance::new("programs", run_a_program),
    Disturbance::new("forks", fork_without_exec),
    Disturbance::new("signals", raise_signals),
    Disturbance::new("waits", sleep_uninterrupted),
    Disturbance::new("labels", change_labels),
];

impl Disturbance {
    const fn new(name: &'static str, once: fn()) -> Self {
        Self { name, once, times: AtomicU64::new(0) }
    }
}

fn threads_come_and_go() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| burn_red(MILLI / 4));
        }
    });
}

fn allocate() {
    let blocks: Vec<Vec<u8>> = (1..200usize).map(|size| black_box(vec![1; size * 37 % 9000])).collect();
    drop(black_box(blocks));
}

fn load_and_unload() {
    for name in [c"libm.so.6", c"libresolv.so.2", c"libanl.so.1", c"libutil.so.1", c"libnss_compat.so.2"] {
        // SAFETY: loads and unloads libraries of the system.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if !handle.is_null() {
                libc::dlclose(handle);
            }
        }
    }
}

fn take_backtraces() {
    // Unresolved: what matters is the unwinder, which takes the loader's lock.
    drop(black_box(std::backtrace::Backtrace::force_capture()));
}

fn panic_and_catch() {
    let result = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(black_box(1))));
    assert!(result.is_err());
}

fn run_a_program() {
    let output = std::process::Command::new("/bin/sh").args(["-c", "echo $((6 * 7))"]).output();
    assert_eq!(output.expect("a shell").stdout, b"42\n");
}

fn fork_without_exec() {
    assert!(flamelet_test_support::holds_in_child(|| black_box(support::work(1)) != 0));
}

extern "C" fn count_signal(_: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// Whether perf events run.
static MAY_INTERRUPT: AtomicBool = AtomicBool::new(false);

static RAISED: AtomicU64 = AtomicU64::new(0);

fn raise_signals() {
    let before = RAISED.load(Ordering::Relaxed);
    // SAFETY: the handler only counts; no other test of this program raises the signal.
    unsafe {
        libc::signal(libc::SIGUSR2, count_signal as *const () as libc::sighandler_t);
        for _ in 0..100 {
            libc::raise(libc::SIGUSR2);
        }
    }
    assert_eq!(RAISED.load(Ordering::Relaxed) - before, 100);
}

fn sleep_uninterrupted() {
    burn_red(MILLI / 2);
    let time = libc::timespec { tv_sec: 0, tv_nsec: 300_000 };
    // SAFETY: sleeps.
    let result = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    // With the kernel's side sampled, a sample on the way into the sleep ends it; see `Engine::Perf`.
    let may_end = MAY_INTERRUPT.load(Ordering::Relaxed);
    assert!(result == 0 || may_end, "{}", std::io::Error::last_os_error());
}

fn change_labels() {
    static REQUEST: AtomicU64 = AtomicU64::new(0);
    let request = REQUEST.fetch_add(1, Ordering::Relaxed).to_string();
    let _scope = labels::scope([("request", &*request), ("route", "/storm")]);
    black_box(support::work(1));
}

/// Makes captures one after the other, some of them cancelled as by a client that hangs up.
fn capture(number: u32, engine: Engine, end: Instant) {
    let mut round = 0;
    while Instant::now() < end {
        let mut options = Options::with_frequency(49 + number * 100);
        (options.engine, options.overhead_budget) = (engine, None);
        let session = cpu::start(&options).expect("starts");
        burn_blue(MILLI * (1 + round % 20));
        match round % 4 {
            0 => drop(session),
            1 => drop(session.snapshot()),
            _ => drop(session.finish()),
        }
        round += 1;
    }
}

/// All disturbances and ten captures until `end`.
fn storm(engine: Engine, end: Instant) {
    std::thread::scope(|scope| {
        for disturbance in &DISTURBANCES {
            let storm = std::thread::Builder::new().name(disturbance.name.into());
            let run = || {
                while Instant::now() < end {
                    (disturbance.once)();
                    disturbance.times.fetch_add(1, Ordering::Relaxed);
                }
            };
            storm.spawn_scoped(scope, run).expect("starts");
        }
        for number in 0..10 {
            scope.spawn(move || capture(number, engine, end));
        }
    });
}

/// The kernel resources of the process: the number of descriptors and of POSIX timers.
fn holdings() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there").count();
    // A kernel may be built without the list.
    let timers = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
    (descriptors, timers.lines().filter(|line| line.starts_with("ID:")).count())
}

/// Returns free memory of the allocator to the system first.
fn resident_kilobytes() -> u64 {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("said");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Ends the process if it does not end by itself, so that a deadlock fails the test.
fn watch_over(length: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(length * 4 + Duration::from_secs(120));
        eprintln!("the storm hangs: {:?}", cpu::status());
        std::process::abort();
    });
}

/// With perf events, where the kernel allows them.
fn perf_storm(length: Duration) {
    MAY_INTERRUPT.store(true, Ordering::Relaxed);
    storm(Engine::Perf, Instant::now() + length);
    MAY_INTERRUPT.store(false, Ordering::Relaxed);
}

#[test]
fn nothing_crashes_hangs_or_grows_with_perf_events_and_under_a_filter_without_them() {
    let _turn = turn();
    let length = length();
    watch_over(length);
    // The initial memory of the allocator and the tables does not count as growth.
    let held_before = holdings();
    storm(Engine::Timer, Instant::now() + length / 4);
    perf_storm(length / 4);
    let before = resident_kilobytes();
    perf_storm(length / 2);
    let filtered = std::thread::spawn(move || {
        flamelet_test_support::deny_call(libc::SYS_perf_event_open);
        storm(Engine::Perf, Instant::now() + length);
    });
    filtered.join().expect("no panic");
    let grown = resident_kilobytes().saturating_sub(before);
    let status = cpu::status();
    for disturbance in &DISTURBANCES {
        let times = disturbance.times.load(Ordering::Relaxed);
        println!("{:>12}: {times} times", disturbance.name);
        assert!(times > 0, "{} never ran", disturbance.name);
    }
    println!("{grown} KB more than at first, {status:?}");
    assert_eq!((status.readers, status.engine), (0, None));
    assert!(status.samples > 0);
    assert_eq!(holdings(), held_before, "descriptors and timers");
    assert!(grown < 64 << 10, "{grown} KB");
}
