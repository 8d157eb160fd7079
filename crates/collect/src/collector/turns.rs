//! Lets only some threads work at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

/// A number of turns, which threads take.
pub(crate) struct Turns {
    free: Mutex<usize>,
    wake: Condvar,
}

/// A turn, which is given back when this is dropped.
pub(crate) struct Turn<'t>(&'t Turns);

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), wake: Condvar::new() }
    }

    /// Waits for a turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.wake.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_threads_work_than_there_are_turns() {
        let (turns, now, most) = (Turns::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = turns.take();
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
