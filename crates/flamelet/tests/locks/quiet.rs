//! What must not happen: allocations in the hook, and flamelet's own locks in its profiles.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::contention::{alone, contend, profiler};

thread_local! {
    static ALLOCATED: Cell<u32> = const { Cell::new(0) };
}

/// The system's allocator, which counts the calls of each thread.
pub(crate) struct Counting;

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[test]
fn neither_side_of_a_contention_allocates() {
    let _alone = alone();
    let profiler = profiler();
    let lock = Mutex::new(0);
    let count = |work: &dyn Fn()| {
        let before = ALLOCATED.get();
        work();
        assert_eq!(ALLOCATED.get(), before, "the hook has allocated");
    };
    let hold = |meanwhile: &dyn Fn()| {
        let held = lock.lock().expect("no panic");
        meanwhile();
        count(&|| ());
        let before = ALLOCATED.get();
        drop(held);
        assert_eq!(ALLOCATED.get(), before, "the hook has allocated");
    };
    let wait = || {
        let _scope = flamelet::labels! { route = "/quiet" };
        count(&|| *lock.lock().expect("no panic") += 1);
    };
    let before = flamelet_capture::wait::locks::snapshot();
    contend(hold, wait);
    let waits: i64 =
        flamelet_capture::wait::locks::snapshot().since(&before).iter().map(|row| row.count()).sum();
    assert!(waits > 0, "there were waits to be counted");
    drop(profiler);
}

#[test]
fn locks_of_flamelet_are_not_in_the_profile() {
    let _alone = alone();
    let profiler = profiler();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut request = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let value = format!("{thread}-{request}");
                    let _scope = flamelet::labels! { request = value };
                    request += 1;
                }
            });
        }
        // Captures and names, which take locks of their own.
        for _ in 0..3 {
            profiler.cpu(Duration::from_millis(50)).run().expect("captured");
            profiler.block().expect("installed");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let profile = profiler.block().expect("installed");
    let own = profile.functions().iter().map(|function| profile.string(function.name));
    let own: Vec<&str> =
        own.filter(|name| name.contains("flamelet_capture::") || name.starts_with("flamelet::")).collect();
    assert!(own.is_empty(), "{own:?}");
}
