//! Where the heap cannot be seen: programs that ask for it build, keep the allocator that they have, and are told so
//! when they want a profile.

use std::path::PathBuf;
use std::time::Duration;

use flamelet_capture::profile::Profile;

use crate::{Error, ErrorKind, Result};
use crate::{Profiler, ProfilerBuilder};

/// Installs the allocator that makes the heap visible. On this system there is none, and it installs nothing.
#[macro_export]
macro_rules! global_allocator {
    ($($choice:tt)*) => {};
}

/// The heap is only seen on Linux: here these choices are taken and have no effect.
impl ProfilerBuilder {
    /// Samples one allocated byte in so many; none on this system.
    pub fn heap_interval(self, _bytes: u64) -> Self {
        self
    }

    /// Keeps a copy of the heap's counts in this file; not on this system.
    pub fn heap_recovery_file(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// Writes the heap to this file when a memory limit is near; not on this system.
    pub fn heap_emergency_file(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// A limit for this process' memory; not watched on this system.
    pub fn memory_limit(self, _bytes: u64) -> Self {
        self
    }

    /// Lets jemalloc sample by itself; not on this system.
    #[cfg(feature = "jemalloc")]
    pub fn heap_by_jemalloc(self) -> Self {
        self
    }

    /// Leaves the heap alone, as it is on this system anyhow.
    pub fn without_heap(self) -> Self {
        self
    }
}

impl Profiler {
    /// The heap, now. On this system always an error, [`ErrorKind::Unsupported`].
    pub fn heap(&self) -> Result<HeapSnapshot> {
        Err(unsupported())
    }

    /// What grows. On this system always an error, [`ErrorKind::Unsupported`].
    pub fn heap_growth(&self, _time: Duration, _windows: usize) -> Result<Profile> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "the heap can only be profiled on Linux")
}

/// A moment of the heap, see [`Profiler::heap`]. On this system there is none.
#[derive(Clone, Debug)]
pub enum HeapSnapshot {}

impl HeapSnapshot {
    /// What is in use, and by whom.
    pub fn in_use(&self) -> Profile {
        match *self {}
    }

    /// What was allocated since the start, and by whom.
    pub fn allocated(&self) -> Profile {
        match *self {}
    }

    /// What happened since `before`.
    pub fn since(&self, before: &Self) -> Profile {
        match *before {}
    }

    /// What grew since `before`.
    pub fn growth(&self, before: &Self) -> Profile {
        match *before {}
    }

    /// What was in use at the highest moment.
    pub fn peak(&self) -> Profile {
        match *self {}
    }

    /// Who frees what others allocated.
    pub fn freed(&self) -> Profile {
        match *self {}
    }

    /// How long memory lived that is freed by now.
    pub fn lifetime(&self) -> Profile {
        match *self {}
    }

    /// What was freed before its thread allocated anything else.
    pub fn temporary(&self) -> Profile {
        match *self {}
    }

    /// Bytes in use, estimated.
    pub fn live_bytes(&self) -> u64 {
        match *self {}
    }
}
