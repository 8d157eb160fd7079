//! A lock without waiting in the kernel, that can be put back after a fork.

use std::sync::atomic::{AtomicBool, Ordering};

/// Guards tables while they grow. Held for microseconds, by threads inside the library.
pub(crate) struct Lock(AtomicBool);

/// Lets go when dropped.
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        (!self.0.swap(true, Ordering::Acquire)).then_some(Held(self))
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        loop {
            if let Some(held) = self.try_hold() {
                return held;
            }
            std::thread::yield_now();
        }
    }

    /// In a forked child: its only thread does not hold it, and whoever did is not there.
    pub(crate) fn put_back(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
