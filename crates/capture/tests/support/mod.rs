//! The shared part of these tests: work whose CPU time is known, names for addresses, and a lock.

#![allow(
    dead_code,
    unused_imports,
    unsafe_code,
    reason = "each test uses a part; clocks, pipes and filters are C functions"
)]

mod clocks;
mod seen;

pub(crate) use clocks::{process_cpu, thread_cpu};
pub(crate) use seen::{
    ENOUGH, Used, assert_most, assert_seen, burn_blue_until_seen, burn_red_until_seen,
    burn_until_process_seen, timer_slack, until_sampled,
};

use flamelet_profile::{LocationId, Profile};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// There is one sampler in the process: tests that inspect it take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works for a few microseconds.
#[inline(always)]
pub(crate) fn work(seed: u64) -> u64 {
    (0..20_000u64).fold(seed, |hash, i| (hash ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7))
}

/// Uses `wanted` of this thread's CPU time, and returns how much it really was.
#[inline(never)]
pub(crate) fn burn_red(wanted: Duration) -> Duration {
    let start = thread_cpu();
    loop {
        black_box(work(black_box(1)));
        let used = thread_cpu() - start;
        if used >= wanted {
            return used;
        }
    }
}

/// Like [`burn_red`], under another name.
#[inline(never)]
pub(crate) fn burn_blue(wanted: Duration) -> Duration {
    let start = thread_cpu();
    loop {
        black_box(work(black_box(2)));
        let used = thread_cpu() - start;
        if used >= wanted {
            return used;
        }
    }
}

/// The functions of this test by address.
pub(crate) struct Names {
    /// By start: end and name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl Names {
    pub(crate) fn new() -> Self {
        let path = std::env::current_exe().expect("this test has a file");
        let bytes = std::fs::read(path).expect("readable");
        let file = object::File::parse(&*bytes).expect("ELF");
        let modules = flamelet_unwind::Modules::of_this_process().expect("this process can be read");
        let own = Self::new as *const () as u64;
        let bias = modules.find(own).expect("this function is somewhere").bias;
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| {
                let start = symbol.address().wrapping_add(bias);
                (start, (start + symbol.size(), symbol.name().unwrap_or("").to_string()))
            })
            .collect();
        Self { functions }
    }

    /// The mangled name of the function at `address`.
    pub(crate) fn at(&self, address: u64) -> &str {
        match self.functions.range(..=address).next_back() {
            Some((_, (end, name))) if address < *end => name,
            _ => "",
        }
    }

    /// The mangled names of a stack, leaf first.
    pub(crate) fn stack<'a>(&'a self, profile: &Profile, stack: &[LocationId]) -> Vec<&'a str> {
        stack.iter().map(|&id| self.at(profile.location(id).address)).collect()
    }

    /// The CPU time of the samples that have a function whose name contains `part`.
    pub(crate) fn inclusive(&self, profile: &Profile, part: &str) -> Duration {
        self.sum(profile, |names| names.iter().any(|name| name.contains(part)))
    }

    /// The CPU time of the samples whose names satisfy `wanted`.
    pub(crate) fn sum(&self, profile: &Profile, wanted: impl Fn(&[&str]) -> bool) -> Duration {
        let nanos =
            profile.samples().filter(|sample| wanted(&self.stack(profile, profile.stack(sample.stack))));
        Duration::from_nanos(nanos.map(|sample| sample.values[1].unsigned_abs()).sum())
    }
}

/// The CPU time of all samples.
pub(crate) fn sampled(profile: &Profile) -> Duration {
    Duration::from_nanos(profile.total(1).unsigned_abs())
}

/// The share of `part` in `whole`, in percent.
pub(crate) fn percent(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() * 100.0 / whole.as_secs_f64().max(1e-9)
}

/// The text of the label `key` of each sample, with the sample's CPU time.
pub(crate) fn by_label(profile: &Profile, key: &str) -> BTreeMap<String, Duration> {
    let mut sums = BTreeMap::new();
    for sample in profile.samples() {
        let labels = profile.labels(sample.labels);
        if let Some(label) = labels.iter().find(|label| profile.string(label.key) == key) {
            let sum: &mut Duration = sums.entry(profile.string(label.text).to_string()).or_default();
            *sum += Duration::from_nanos(sample.values[1].unsigned_abs());
        }
    }
    sums
}

/// The CPU time of the samples with this label.
pub(crate) fn labelled(profile: &Profile, key: &str, text: &str) -> Duration {
    by_label(profile, key).get(text).copied().unwrap_or_default()
}

/// The stack of each sample, whatever time it stands for: all are equally likely to be right.
pub(crate) fn events(profile: &Profile) -> Vec<&[LocationId]> {
    let stacks: Vec<_> = profile.samples().map(|sample| profile.stack(sample.stack)).collect();
    let timeline = profile.timeline.as_ref().expect("kept");
    timeline.events.iter().map(|event| stacks[event.sample as usize]).collect()
}

/// Whether the stack ends with the mark of those that do not reach their thread's start.
pub(crate) fn is_truncated(profile: &Profile, stack: &[LocationId]) -> bool {
    let root = stack.last().and_then(|&id| profile.lines(id).first()).and_then(|line| line.function);
    root.is_some_and(|id| profile.string(profile.function(id).name) == "[truncated]")
}

/// Runs `work` while two threads use CPU time.
pub(crate) fn under_load<T>(work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The others must end even if `work` panics.
        let _over = Over(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    burn_blue(Duration::from_millis(5));
                }
            });
        }
        work()
    })
}

/// Makes this many sleeps, and this many reads that have to wait, between work and beside busy threads. None may be
/// interrupted.
pub(crate) fn sleep_and_read_while_busy(times: u32) {
    under_load(|| {
        let mut ends = [0; 2];
        // SAFETY: makes a pipe; every call below uses its own buffers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..times {
                    burn_red(Duration::from_micros(500));
                    let time = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
                    // SAFETY: sleeps.
                    let result = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
                    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
                }
            });
            scope.spawn(|| {
                for _ in 0..times {
                    burn_red(Duration::from_micros(500));
                    let mut byte = 0u8;
                    // SAFETY: reads one byte into `byte`.
                    let result = unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
                    assert_eq!(result, 1, "{}", std::io::Error::last_os_error());
                }
            });
            for _ in 0..times {
                std::thread::sleep(Duration::from_micros(700));
                // SAFETY: writes one byte.
                assert_eq!(unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) }, 1);
            }
        });
        // SAFETY: both are this function's own.
        unsafe { (libc::close(ends[0]), libc::close(ends[1])) };
    });
}
