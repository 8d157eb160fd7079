//! Two threads and something that one of them waits for: how long it waits is known by construction.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flamelet::{Profile, Profiler};

/// How long a holder sleeps after it has seen that the other thread waits.
pub(crate) const HELD: Duration = Duration::from_millis(20);

pub(crate) const ROUNDS: u32 = 5;

pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// What really happened.
#[derive(Debug)]
pub(crate) struct Truth {
    /// As the waiting thread itself has measured it.
    pub(crate) waited: Duration,
    /// No wait can have been shorter.
    pub(crate) at_least: Duration,
}

/// A profiler that counts every wait.
pub(crate) fn profiler() -> Profiler {
    let builder = Profiler::builder().name("under test").lock_rate(Duration::from_nanos(1));
    builder.start().expect("started")
}

/// The state of a round: whose turn it is.
#[derive(Default)]
struct Turn(AtomicU32);

impl Turn {
    fn give(&self, turn: u32) {
        self.0.store(turn, Ordering::SeqCst);
    }

    /// Waits without blocking: waits of the tests themselves are not to be in the profile.
    fn wait(&self, turn: u32) {
        let start = Instant::now();
        while self.0.load(Ordering::SeqCst) != turn {
            assert!(start.elapsed() < DEADLINE, "the other thread has stopped");
            std::thread::yield_now();
        }
    }
}

/// For each round: `hold` takes something, calls the function that it gets while it holds it, and lets go of it; `wait`
/// on another thread waits for that.
pub(crate) fn contend(hold: impl Fn(&dyn Fn()), wait: impl Fn() + Sync) -> Truth {
    let (turn, waiter) = (Turn::default(), AtomicI32::new(0));
    let waited = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            waiter.store(this_thread(), Ordering::SeqCst);
            let mut waited = Duration::ZERO;
            for round in 0..ROUNDS {
                turn.wait(3 * round + 1);
                let start = Instant::now();
                turn.give(3 * round + 2);
                wait();
                waited += start.elapsed();
                turn.give(3 * round + 3);
            }
            waited
        });
        for round in 0..ROUNDS {
            hold(&|| {
                turn.give(3 * round + 1);
                turn.wait(3 * round + 2);
                wait_until_asleep(waiter.load(Ordering::SeqCst));
                std::thread::sleep(HELD);
            });
            turn.wait(3 * round + 3);
        }
        thread.join().expect("no panic")
    });
    Truth { waited, at_least: HELD * ROUNDS }
}

pub(crate) fn this_thread() -> i32 {
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Waits until the kernel has put a thread to sleep.
pub(crate) fn wait_until_asleep(thread: i32) {
    let start = Instant::now();
    let is_asleep = || {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("it runs");
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    };
    while !is_asleep() {
        assert!(start.elapsed() < DEADLINE, "it does not wait");
        std::thread::yield_now();
    }
}

/// Tests that change the rate, or need it unchanged, take turns.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a profile says about stacks with a function of this name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) count: i64,
    pub(crate) delay: Duration,
    pub(crate) kinds: Vec<String>,
}

impl Found {
    /// What was added since `before`.
    pub(crate) fn minus(mut self, before: &Self) -> Self {
        self.count -= before.count;
        self.delay -= before.delay;
        self
    }
}

pub(crate) fn find(profile: &Profile, function: &str) -> Found {
    find_kind(profile, function, None)
}

/// The same for waits of this kind only.
pub(crate) fn find_kind(profile: &Profile, function: &str, kind: Option<&str>) -> Found {
    let mut found = Found::default();
    for sample in profile.samples() {
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let is_it = |name: &str| name.contains(function);
        let is_there = lines
            .any(|line| line.function.is_some_and(|id| is_it(profile.string(profile.function(id).name))));
        let mut labels = profile.labels(sample.labels).iter();
        let of_sample = labels.find(|label| profile.string(label.key) == "kind");
        let of_sample = of_sample.map(|label| profile.string(label.text));
        if !is_there || kind.is_some() && of_sample != kind {
            continue;
        }
        found.count += sample.values[0];
        found.delay += Duration::from_nanos(sample.values[1] as u64);
        found.kinds.extend(of_sample.map(str::to_owned));
    }
    found.kinds.sort();
    found.kinds.dedup();
    found
}
