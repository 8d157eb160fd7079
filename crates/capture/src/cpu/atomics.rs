//! The atomics of the pool: those of the standard library, but for the pool's own tests, in which a [model](super::model)
//! decides whose turn it is.

#[cfg(test)]
pub(super) use super::model::{AtomicU32, AtomicU64, reads, writes};
#[cfg(not(test))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// Memory that is not atomic is about to be read.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn reads<T>(_place: *const T) {}

/// Memory that is not atomic is about to be written.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn writes<T>(_place: *const T) {}
