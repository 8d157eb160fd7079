//! The atomics of lock-free code: the standard library's, except in tests, where a [model](super::model) decides which
//! thread runs next.

#[cfg(test)]
pub(super) use super::model::{AtomicPtr, AtomicU32, AtomicU64, gives_way, reads, writes};
#[cfg(not(test))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Marks non-atomic memory that is about to be read.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn reads<T>(_place: *const T) {}

/// Marks non-atomic memory that is about to be written.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn writes<T>(_place: *const T) {}

/// In a model, lets another thread run and returns true.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn gives_way() -> bool {
    false
}
