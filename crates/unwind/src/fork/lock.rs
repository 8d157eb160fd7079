//! A lock that the child of a fork never finds held.

use super::mark::process;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that one thread at a time has, for rare and short work. It knows the process of its holder: in the child
/// of a fork, where the holder's thread does not exist, it is free. (Waiting for a `Mutex` there would never end.)
/// Waiting enters the kernel only to let other threads run; nothing allocates.
///
/// Before any part watches forks, it knows a process by its number alone.
#[derive(Debug)]
pub struct Lock<T> {
    /// The holder's process; 0 for none.
    holder: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that holds the lock touches the value, one thread after another.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Releases the lock when dropped.
#[derive(Debug)]
#[must_use = "the lock is held as long as this lives"]
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// Makes a lock that no thread holds.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread holds it.
    pub fn lock(&self) -> Guard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            std::thread::yield_now();
        }
    }

    /// Takes it unless a thread of this process holds it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let this = process();
        let holder = self.holder.load(Ordering::Relaxed);
        if holder == this {
            return None;
        }
        self.holder.compare_exchange(holder, this, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Guard(self))
    }

    /// In the child of a fork: frees the lock.
    /// Returns whether it was held, so that the value may be half changed. Async-signal-safe.
    pub fn reset_in_child(&self) -> bool {
        self.holder.swap(0, Ordering::Relaxed) != 0
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and there is one guard for it.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::tests::holds_in_children_with_the_same_number;
    use super::*;
    use flamelet_test_support::holds_in_child;

    #[test]
    fn one_thread_has_it_at_a_time() {
        let lock = Lock::new(0);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4000);
    }

    #[test]
    fn a_child_does_not_find_it_held() {
        let lock = Lock::new(7);
        let guard = lock.lock();
        assert!(holds_in_child(|| lock.try_lock().is_some_and(|value| *value == 7)));
        assert!(holds_in_child(|| lock.reset_in_child() && !lock.reset_in_child()));
        assert!(holds_in_children_with_the_same_number(|| lock.try_lock().is_some_and(|value| *value == 7)));
        drop(guard);
        assert!(holds_in_child(|| !lock.reset_in_child()));
    }
}
