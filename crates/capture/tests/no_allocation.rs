//! The handler never allocates, so the thread that it interrupts may hold the allocator's lock.
//!
//! The allocator of this test takes a lock and uses CPU time under it, so that most samples fall there. A
//! handler that allocated would enter it a second time on the same thread: that is counted, and without the
//! count it would deadlock.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "an allocator")]

mod support;

use flamelet_capture::cpu::{self, Engine, Options};
use flamelet_capture::labels;
use flamelet_profile::{LocationId, Profile};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::{ENOUGH, Names, events, process_cpu, thread_cpu};

const PATIENCE: Duration = Duration::from_secs(20);

struct Locked;

#[global_allocator]
static ALLOCATOR: Locked = Locked;

static LOCK: AtomicBool = AtomicBool::new(false);
static ENTERED_TWICE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    static IS_SLOW: Cell<bool> = const { Cell::new(false) };
}

impl Locked {
    fn with_lock<T>(work: impl FnOnce() -> T) -> T {
        if IS_INSIDE.replace(true) {
            ENTERED_TWICE.fetch_add(1, Ordering::Relaxed);
            return work();
        }
        while LOCK.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        if IS_SLOW.get() {
            slow_under_the_lock();
        }
        let result = work();
        LOCK.store(false, Ordering::Release);
        IS_INSIDE.set(false);
        result
    }
}

#[inline(never)]
fn slow_under_the_lock() {
    black_box(support::work(black_box(3)));
}

// SAFETY: everything is handed to the system's allocator.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        Self::with_lock(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        Self::with_lock(|| unsafe { System.dealloc(pointer, layout) });
    }
}

/// Two threads that use this much CPU time each under the allocator's lock.
fn allocate_under_the_lock(wanted: Duration) {
    let work = move |number: u32| {
        let _scope = labels::scope([("worker", number.to_string())]);
        IS_SLOW.set(true);
        let start = thread_cpu();
        while thread_cpu() - start < wanted {
            drop(black_box(vec![number; 100]));
        }
        IS_SLOW.set(false);
    };
    let workers: Vec<_> = (0..2).map(|number| std::thread::spawn(move || work(number))).collect();
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
}

#[test]
fn no_handler_ever_allocates_even_under_the_allocator_s_lock() {
    let names = Names::new();
    for engine in [Engine::Timer, Engine::Perf, Engine::Setitimer] {
        let mut options = Options::with_frequency(999);
        (options.engine, options.overhead_budget) = (engine, None);
        let session = cpu::start(&options).expect("starts");
        if cpu::status().engine != Some(engine) {
            let comments = session.finish();
            let comments: Vec<&str> = comments.comments().collect();
            flamelet_test_support::skip!("engine {} is not available here: {comments:?}", engine.name());
            continue;
        }
        // On a busy machine the kernel's ticks may land on other processes for a long time.
        let (start, is_hot) = (process_cpu(), |stack: &&[LocationId], profile: &Profile| {
            names.stack(profile, stack).iter().any(|name| name.contains("slow_under_the_lock"))
        });
        let mut under_lock = 0;
        while under_lock < ENOUGH && process_cpu() - start < PATIENCE {
            allocate_under_the_lock(Duration::from_millis(200));
            let profile = session.snapshot();
            under_lock = events(&profile).iter().filter(|stack| is_hot(stack, &profile)).count();
        }
        drop(session);
        println!("{}: {under_lock} samples under the lock", engine.name());
        assert!(under_lock >= ENOUGH, "{engine:?}: {under_lock}");
        assert_eq!(ENTERED_TWICE.load(Ordering::Relaxed), 0, "{engine:?}");
    }
}
