//! Locks that a panic does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for `mutex`; what a panic left behind it is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
