//! Heap profiles: which code holds the service's memory, allocates it and frees it, and how long it lives.
//!
//! ```
//! flamelet::global_allocator!();
//!
//! # fn main() -> Result<(), flamelet::Error> {
//! let profiler = flamelet::Profiler::builder().name("checkout").start()?;
//! let heap = profiler.heap()?;
//! let in_use = heap.in_use();
//! # Ok(())
//! # }
//! ```
//!
//! With the allocator in place, starting a profiler also starts sampling allocations: one byte in 512 KiB, at a cost
//! of about a nanosecond for each allocation that is not sampled. The functions of this module change that at run
//! time.
//!
//! Tests can limit the allocations of code with a [`budget()`], which counts exactly.

pub use budget::budget;
pub use flamelet_capture::heap::budget::{Budget, StackUsage, Usage, measure};
/// C's allocation functions, for `global_allocator!(malloc)`.
#[doc(hidden)]
#[cfg(target_env = "gnu")]
pub use flamelet_capture::heap::c;
/// jemalloc's own sampling, dumps and statistics, for programs that need those.
#[cfg(feature = "jemalloc")]
pub use flamelet_capture::heap::jemalloc;
pub use flamelet_capture::heap::{
    DEFAULT_MEAN, Windows, emergencies, is_running, previous_file, recover, reset, set_mean, stop,
    tracked_blocks,
};
pub use growth::DEFAULT_WINDOWS;
pub use view::{View, recover_view};

mod budget;
mod growth;
mod view;

use flamelet_capture::heap::Snapshot;
use flamelet_capture::profile::Profile;

#[cfg(feature = "jemalloc")]
use crate::heap_sampling::by_jemalloc;
use crate::heap_sampling::not_enabled;
use crate::{Error, ErrorKind, Result};
use crate::{Profiler, profiler};

/// Defines C's allocation functions.
#[doc(hidden)]
#[macro_export]
macro_rules! define_malloc {
    () => {
        /// C's allocation functions, with sampling.
        mod flamelet_malloc {
            use ::std::ffi::{c_int, c_void};
            use $crate::heap::c;

            #[unsafe(no_mangle)]
            extern "C" fn malloc(size: usize) -> *mut c_void {
                c::malloc(size)
            }

            #[unsafe(no_mangle)]
            extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
                c::calloc(count, size)
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn free(block: *mut c_void) {
                // SAFETY: C's own contract.
                unsafe { c::free(block) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
                // SAFETY: C's own contract.
                unsafe { c::realloc(block, size) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
                // SAFETY: C's own contract.
                unsafe { c::reallocarray(block, count, size) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
                c::memalign(alignment, size)
            }

            #[unsafe(no_mangle)]
            extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
                c::memalign(alignment, size)
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn posix_memalign(
                out: *mut *mut c_void,
                alignment: usize,
                size: usize,
            ) -> c_int {
                // SAFETY: C's own contract.
                unsafe { c::posix_memalign(out, alignment, size) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn valloc(size: usize) -> *mut c_void {
                c::valloc(size)
            }

            #[unsafe(no_mangle)]
            extern "C" fn pvalloc(size: usize) -> *mut c_void {
                c::pvalloc(size)
            }
        }
    };
}

/// A snapshot of the heap, from which profiles are made, see [`Profiler::heap`].
#[derive(Clone, Debug)]
pub struct HeapSnapshot {
    moment: SnapshotData,
    profiler: Profiler,
}

#[derive(Clone, Debug)]
enum SnapshotData {
    Tables(Snapshot),
    /// jemalloc's dump: only what is in use, and what was allocated if jemalloc is configured to count that.
    #[cfg(feature = "jemalloc")]
    Dump(Box<Profile>),
}

impl Profiler {
    /// Takes a snapshot of the heap. This does not pause the service; names are looked up when a profile is made from
    /// it.
    pub fn heap(&self) -> Result<HeapSnapshot> {
        if !self.shared().has_heap {
            return Err(Error::new(ErrorKind::NotEnabled, not_enabled()));
        }
        #[cfg(feature = "jemalloc")]
        if let Some(dump) = by_jemalloc::dump()? {
            return Ok(HeapSnapshot { moment: SnapshotData::Dump(Box::new(dump)), profiler: self.clone() });
        }
        Ok(HeapSnapshot { moment: SnapshotData::Tables(Snapshot::take()?), profiler: self.clone() })
    }
}

impl HeapSnapshot {
    /// Returns what is in use, by the stack that allocated it: Go's `heap`.
    pub fn in_use(&self) -> Profile {
        self.complete(self.whole())
    }

    /// Returns what was allocated since the start, by stack: Go's `allocs`. The profile has the same numbers as
    /// [`in_use`](Self::in_use), but shows another sample type first.
    pub fn allocated(&self) -> Profile {
        self.complete(shown_as_allocated(self.whole()))
    }

    /// Returns what changed since `before`. What is in use may have shrunk, so its values may be negative.
    pub fn since(&self, before: &Self) -> Profile {
        self.complete(self.difference(before))
    }

    #[cfg(feature = "http")]
    pub(crate) fn allocated_since(&self, before: &Self) -> Profile {
        self.complete(shown_as_allocated(self.difference(before)))
    }

    /// Returns what grew since `before`, the largest first: the suspects in a leak.
    pub fn growth(&self, before: &Self) -> Profile {
        self.complete(match (&self.moment, &before.moment) {
            (SnapshotData::Tables(now), SnapshotData::Tables(before)) => now.growth(before),
            #[cfg(feature = "jemalloc")]
            _ => by_jemalloc::unknown("growth"),
        })
    }

    /// Returns what was in use when the heap was largest.
    pub fn peak(&self) -> Profile {
        self.told("peak", Snapshot::peak)
    }

    /// Returns which code frees memory that other code allocated.
    pub fn freed(&self) -> Profile {
        self.told("freed", Snapshot::freed)
    }

    /// Returns how long freed memory had lived, in classes: the label `lifetime`.
    pub fn lifetime(&self) -> Profile {
        self.told("freed", Snapshot::lifetime)
    }

    /// Returns what was freed before its thread allocated anything else: what reusing a buffer would save.
    pub fn temporary(&self) -> Profile {
        self.told("freed", Snapshot::temporary)
    }

    /// Returns the profile for `view`. A single snapshot cannot show growth: for [`View::Growth`] it returns what is
    /// in use.
    pub fn view(&self, view: View) -> Profile {
        match view {
            View::Allocated => self.allocated(),
            View::Freed => self.freed(),
            View::Lifetime => self.lifetime(),
            View::Temporary => self.temporary(),
            View::Peak => self.peak(),
            View::InUse | View::Growth => self.in_use(),
        }
    }

    /// Returns the bytes in use, estimated.
    pub fn live_bytes(&self) -> u64 {
        match &self.moment {
            SnapshotData::Tables(snapshot) => snapshot.live_bytes(),
            #[cfg(feature = "jemalloc")]
            SnapshotData::Dump(dump) => u64::try_from(dump.total(3)).unwrap_or(0),
        }
    }

    fn whole(&self) -> Profile {
        match &self.moment {
            SnapshotData::Tables(snapshot) => snapshot.heap(),
            #[cfg(feature = "jemalloc")]
            SnapshotData::Dump(dump) => (**dump).clone(),
        }
    }

    fn difference(&self, before: &Self) -> Profile {
        match (&self.moment, &before.moment) {
            (SnapshotData::Tables(now), SnapshotData::Tables(before)) => now.since(before),
            #[cfg(feature = "jemalloc")]
            _ => by_jemalloc::difference(self.whole(), before.whole()),
        }
    }

    /// Returns a profile that only the tables can give. For a dump it is empty and says why.
    fn told(&self, _kind: &str, tell: fn(&Snapshot) -> Profile) -> Profile {
        self.complete(match &self.moment {
            SnapshotData::Tables(snapshot) => tell(snapshot),
            #[cfg(feature = "jemalloc")]
            SnapshotData::Dump(_) => by_jemalloc::unknown(_kind),
        })
    }

    fn complete(&self, profile: Profile) -> Profile {
        let shared = self.profiler.shared();
        profiler::count(&shared.counters.served);
        self.profiler.complete(profile, shared.settings.symbolize)
    }
}

fn shown_as_allocated(mut profile: Profile) -> Profile {
    profile.header.default_sample_type = profile.intern("alloc_space");
    profile
}
