//! The heap interface on systems without heap profiling: programs that use it build and keep their own allocator, and
//! asking for a heap profile returns an error.

use std::path::PathBuf;
use std::time::Duration;

use flamelet_capture::profile::Profile;

use crate::{Error, ErrorKind, Result};
use crate::{Profiler, ProfilerBuilder};

/// Heap profiling works on Linux only: on this system these options are accepted and have no effect.
impl ProfilerBuilder {
    /// Sets the sampling interval in bytes; has no effect on this system.
    pub fn heap_interval(self, _bytes: u64) -> Self {
        self
    }

    /// Keeps a copy of the heap's counts in this file; has no effect on this system.
    pub fn heap_recovery_file(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// Writes the heap to this file when a memory limit is near; has no effect on this system.
    pub fn heap_emergency_file(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// Adds a memory limit to watch; has no effect on this system.
    pub fn memory_limit(self, _bytes: u64) -> Self {
        self
    }

    /// Lets jemalloc sample by itself; has no effect on this system.
    #[cfg(feature = "jemalloc")]
    pub fn heap_by_jemalloc(self) -> Self {
        self
    }

    /// Switches heap profiling off, which on this system it always is.
    pub fn without_heap(self) -> Self {
        self
    }
}

impl Profiler {
    /// Takes a snapshot of the heap. On this system always an error, [`ErrorKind::Unsupported`].
    pub fn heap(&self) -> Result<HeapSnapshot> {
        Err(unsupported())
    }

    /// Returns what grows. On this system always an error, [`ErrorKind::Unsupported`].
    pub fn heap_growth(&self, _time: Duration, _windows: usize) -> Result<Profile> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "heap profiling is only supported on Linux")
}

/// A snapshot of the heap, see [`Profiler::heap`]. On this system there is never one.
#[derive(Clone, Debug)]
pub enum HeapSnapshot {}

impl HeapSnapshot {
    /// Returns what is in use, by stack.
    pub fn in_use(&self) -> Profile {
        match *self {}
    }

    /// Returns what was allocated since the start, by stack.
    pub fn allocated(&self) -> Profile {
        match *self {}
    }

    /// Returns what changed since `before`.
    pub fn since(&self, before: &Self) -> Profile {
        match *before {}
    }

    /// Returns what grew since `before`.
    pub fn growth(&self, before: &Self) -> Profile {
        match *before {}
    }

    /// Returns what was in use when the heap was largest.
    pub fn peak(&self) -> Profile {
        match *self {}
    }

    /// Returns which code frees memory that other code allocated.
    pub fn freed(&self) -> Profile {
        match *self {}
    }

    /// Returns how long freed memory had lived.
    pub fn lifetime(&self) -> Profile {
        match *self {}
    }

    /// Returns what was freed before its thread allocated anything else.
    pub fn temporary(&self) -> Profile {
        match *self {}
    }

    /// Returns the bytes in use, estimated.
    pub fn live_bytes(&self) -> u64 {
        match *self {}
    }
}
