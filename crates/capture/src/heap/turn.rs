//! A lock that the child of a fork is never left with.

use std::sync::atomic::{AtomicU32, Ordering};

/// Taken by one thread at a time. It knows the process of its holder: in the child of a fork, where the holder's thread
/// does not exist, it is free. (A `Mutex` would be waited for there for ever.)
pub(super) struct Turn {
    holder: AtomicU32,
}

/// While this lives, it is this thread's turn.
pub(super) struct Held<'a>(&'a Turn);

impl Turn {
    pub(super) const fn new() -> Self {
        Self { holder: AtomicU32::new(0) }
    }

    pub(super) fn wait(&self) -> Held<'_> {
        loop {
            if let Some(held) = self.try_now() {
                return held;
            }
            std::thread::yield_now();
        }
    }

    /// Like [`Turn::wait`], as often as told.
    pub(super) fn try_often(&self, times: usize) -> Option<Held<'_>> {
        (0..times).find_map(|_| {
            let held = self.try_now();
            if held.is_none() {
                std::thread::yield_now();
            }
            held
        })
    }

    fn try_now(&self) -> Option<Held<'_>> {
        let this = std::process::id();
        let holder = self.holder.load(Ordering::Relaxed);
        if holder == this {
            return None;
        }
        self.holder.compare_exchange(holder, this, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Held(self))
    }

    /// Whoever holds it does so no longer.
    pub(super) fn set_free(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set_free();
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn one_at_a_time_and_another_process_counts_for_nothing() {
        let turn = Turn::new();
        let held = turn.wait();
        assert!(turn.try_often(3).is_none());
        drop(held);
        assert!(turn.try_often(1).is_some());
        // As a child finds it whose parent forked while it was held.
        turn.holder.store(u32::MAX, std::sync::atomic::Ordering::Relaxed);
        assert!(turn.try_often(1).is_some());
    }
}
