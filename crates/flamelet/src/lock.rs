//! Locks that a panic elsewhere does not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. What it guards here is whole after every statement, so a panic of another thread is no
/// reason to fail.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
