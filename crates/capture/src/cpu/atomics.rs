//! The pool's atomics: the standard library's, except in the pool's own tests, where a [model](super::model) decides
//! which thread runs next.

#[cfg(test)]
pub(super) use super::model::{AtomicU32, AtomicU64, reads, writes};
#[cfg(not(test))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// Marks non-atomic memory that is about to be read.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn reads<T>(_place: *const T) {}

/// Marks non-atomic memory that is about to be written.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn writes<T>(_place: *const T) {}
