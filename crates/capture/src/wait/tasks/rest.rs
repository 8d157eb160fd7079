//! Lets a thread sleep as long as there is nothing for it to watch; whoever begins something wakes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use flamelet_unwind::fork::PerProcess;

use crate::own_threads::unseen;

/// The longest rest. Work that begins while the thread is falling asleep may not wake it: ruling that out would cost
/// too much.
const LONGEST: Duration = Duration::from_secs(1);

/// The rest of one thread.
pub(super) struct Rest {
    is_on: AtomicBool,
    thread: PerProcess<Thread>,
}

impl Rest {
    pub(super) const fn new() -> Self {
        Self { is_on: AtomicBool::new(false), thread: PerProcess::new() }
    }

    /// Wakes the thread if it rests. Call it after the work that the thread watches for has begun.
    #[inline]
    pub(super) fn end(&self) {
        if self.is_on.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_on.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.known()
        {
            unseen(|| thread.unpark());
        }
    }

    /// Rests, unless there `is_work`; returns whether another thread has ended the rest, which also ends by itself.
    /// Only one thread may call this.
    pub(super) fn begin(&self, is_work: impl FnOnce() -> bool) -> bool {
        self.thread.get(|_| std::thread::current());
        self.is_on.store(true, Ordering::SeqCst);
        if !is_work() {
            std::thread::park_timeout(LONGEST);
        }
        !self.is_on.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn another_thread_ends_it_and_work_prevents_it() {
        static REST: Rest = Rest::new();
        static IS_AWAKE: AtomicBool = AtomicBool::new(false);
        // It may end by itself before.
        let thread = std::thread::spawn(|| {
            while !REST.begin(|| false) {}
            IS_AWAKE.store(true, Ordering::Relaxed);
            // Nobody ends this one.
            REST.begin(|| true)
        });
        let start = Instant::now();
        while !IS_AWAKE.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(180), "it rests");
            REST.end();
            std::thread::yield_now();
        }
        // Unless the loop above has seen it once more.
        let _ = thread.join().expect("it ends at once");
        assert!(!REST.is_on.load(Ordering::Relaxed));
    }

    #[test]
    fn the_child_of_a_fork_has_a_rest_of_its_own() {
        static REST: Rest = Rest::new();
        let rest = || {
            std::thread::scope(|scope| {
                let resting = scope.spawn(|| while !REST.begin(|| false) {});
                while !resting.is_finished() {
                    REST.end();
                    std::thread::yield_now();
                }
            });
            true
        };
        assert!(rest());
        assert!(flamelet_test_support::holds_in_child(rest));
    }
}
