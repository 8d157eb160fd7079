//! A lock that the forking thread holds during the fork, so that what it guards is whole in the child.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than any running thread holds such a lock. A thread that waits for longer has most likely interrupted the
/// holder, or holds what the holder waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Keeps the guard of a lock between the handlers of a fork. Each lock has its own such value: when two threads fork
/// at once, the second waits for the first.
#[derive(Debug)]
pub struct HeldThroughFork<G> {
    /// The thread that has the guard: the address of its control block, which is the same in the child. 0 for none.
    thread: AtomicUsize,
    guard: UnsafeCell<Option<G>>,
}

// SAFETY: only the thread that holds the lock looks inside: `hold` after it took the lock, `release` on the same
// thread; in a child there is no other thread.
unsafe impl<G> Sync for HeldThroughFork<G> {}

impl<G> HeldThroughFork<G> {
    /// Makes one that holds nothing.
    pub const fn new() -> Self {
        Self { thread: AtomicUsize::new(0), guard: UnsafeCell::new(None) }
    }

    /// Before a fork: takes the lock, unless that takes too long.
    pub fn hold(&self, try_lock: impl Fn() -> Option<G>) {
        if self.is_of_this_thread() {
            return;
        }
        let start = Instant::now();
        let guard = loop {
            match try_lock() {
                Some(guard) => break guard,
                None if start.elapsed() > PATIENCE => return,
                None => std::thread::yield_now(),
            }
        };
        // SAFETY: this thread holds the lock.
        unsafe { *self.guard.get() = Some(guard) };
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    /// After a fork, in the parent: releases the lock if this thread holds it.
    pub fn release(&self) {
        if self.is_of_this_thread() {
            self.thread.store(0, Ordering::Relaxed);
            // SAFETY: this thread holds the lock since `hold`.
            drop(unsafe { (*self.guard.get()).take() });
        }
    }

    /// After a fork, in the child: releases the lock, and returns whether the thread that forked held it. Otherwise
    /// what it guards may be half changed, and a thread that does not exist there may hold the lock.
    pub fn release_in_child(&self) -> bool {
        let is_held = self.is_of_this_thread();
        if !is_held {
            self.thread.store(0, Ordering::Relaxed);
            // SAFETY: there is no other thread. The guard of a thread that no longer exists is left alone.
            std::mem::forget(unsafe { (*self.guard.get()).take() });
        }
        self.release();
        is_held
    }

    fn is_of_this_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }
}

impl<G> Default for HeldThroughFork<G> {
    fn default() -> Self {
        Self::new()
    }
}

fn this_thread() -> usize {
    // SAFETY: cannot fail.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::{Guard, Lock};
    use flamelet_test_support::holds_in_child;

    #[test]
    fn a_child_knows_whether_its_thread_held_the_lock() {
        static LOCK: Lock<()> = Lock::new(());
        static HELD: HeldThroughFork<Guard<'static, ()>> = HeldThroughFork::new();
        HELD.hold(|| LOCK.try_lock());
        HELD.hold(|| LOCK.try_lock());
        assert!(LOCK.try_lock().is_none());
        assert!(holds_in_child(|| HELD.release_in_child() && !HELD.release_in_child()));
        // Another thread that forks waits, gives up, and changes nothing.
        let of_another_thread = || {
            HELD.hold(|| LOCK.try_lock());
            let is_held = holds_in_child(|| HELD.release_in_child());
            HELD.release();
            is_held
        };
        assert!(!std::thread::spawn(of_another_thread).join().expect("no panic"));
        assert!(LOCK.try_lock().is_none());
        HELD.release();
        assert!(LOCK.try_lock().is_some());
    }
}
