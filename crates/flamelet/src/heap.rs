//! Who holds the service's memory, who allocates it, who frees it, and how long it lives.
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
//! With the allocator in place, a profiler that starts also starts to sample allocations: one in 512 KiB, at
//! a cost of about a nanosecond for each of the others. Functions of this module change that at run time.
//!
//! Tests can hold code to a [`budget()`] of allocations, counted exactly.

pub use budget::budget;
pub use flamelet_capture::heap::budget::{Budget, GuiltyStack, Usage, measure};
/// jemalloc's own sampling, dumps and statistics, where something else needs those.
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

/// Installs the allocator that makes the heap visible: around the system's allocator, or, with the feature of
/// that name, around `jemalloc` or `mimalloc`. For any other, see [`Alloc`](crate::Alloc).
///
/// With `(jemalloc, profiling)`, jemalloc is also made ready to sample by itself, for
/// `ProfilerBuilder::heap_by_jemalloc` and for whatever else asks it for profiles.
///
/// ```
/// flamelet::global_allocator!();
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! global_allocator {
    () => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc = $crate::Alloc::system();
    };
    (jemalloc) => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc<$crate::allocators::Jemalloc> =
            $crate::Alloc::new($crate::allocators::Jemalloc);
    };
    (jemalloc, profiling) => {
        $crate::global_allocator!(jemalloc);

        /// What jemalloc reads at its start: ready to profile, and off.
        #[doc(hidden)]
        #[unsafe(export_name = "_rjem_malloc_conf")]
        pub static FLAMELET_MALLOC_CONF: $crate::heap::jemalloc::Conf = $crate::heap::jemalloc::CONF;
    };
    (mimalloc) => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc<$crate::allocators::MiMalloc> =
            $crate::Alloc::new($crate::allocators::MiMalloc);
    };
}

/// A moment of the heap, of which profiles are made, see [`Profiler::heap`].
#[derive(Clone, Debug)]
pub struct HeapSnapshot {
    moment: Moment,
    profiler: Profiler,
}

/// What is known of a moment.
#[derive(Clone, Debug)]
enum Moment {
    Tables(Snapshot),
    /// jemalloc's dump: only what is in use, and what was allocated if it was told to count that.
    #[cfg(feature = "jemalloc")]
    Dump(Box<Profile>),
}

impl Profiler {
    /// The heap, now. Taking it stops nothing; names are looked up when a profile is made of it.
    pub fn heap(&self) -> Result<HeapSnapshot> {
        if !self.shared().has_heap {
            return Err(Error::new(ErrorKind::NotEnabled, not_enabled()));
        }
        #[cfg(feature = "jemalloc")]
        if let Some(dump) = by_jemalloc::dump()? {
            return Ok(HeapSnapshot { moment: Moment::Dump(Box::new(dump)), profiler: self.clone() });
        }
        Ok(HeapSnapshot { moment: Moment::Tables(Snapshot::take()?), profiler: self.clone() })
    }
}

impl HeapSnapshot {
    /// What is in use, and by whom: Go's `heap`.
    pub fn in_use(&self) -> Profile {
        self.complete(self.whole())
    }

    /// What was allocated since the start, and by whom: the same numbers, shown the other way: Go's `allocs`.
    pub fn allocated(&self) -> Profile {
        self.complete(shown_as_allocated(self.whole()))
    }

    /// What happened since `before`: differences, which may be negative for what is in use.
    pub fn since(&self, before: &Self) -> Profile {
        self.complete(self.difference(before))
    }

    #[cfg(feature = "http")]
    pub(crate) fn allocated_since(&self, before: &Self) -> Profile {
        self.complete(shown_as_allocated(self.difference(before)))
    }

    /// What grew since `before`, the largest first: suspects of a leak.
    pub fn growth(&self, before: &Self) -> Profile {
        self.complete(match (&self.moment, &before.moment) {
            (Moment::Tables(now), Moment::Tables(before)) => now.growth(before),
            #[cfg(feature = "jemalloc")]
            _ => by_jemalloc::unknown("growth"),
        })
    }

    /// What was in use at the highest moment.
    pub fn peak(&self) -> Profile {
        self.told("peak", Snapshot::peak)
    }

    /// Who frees what others allocated.
    pub fn freed(&self) -> Profile {
        self.told("freed", Snapshot::freed)
    }

    /// How long memory lived that is freed by now, in classes: the label `lifetime`.
    pub fn lifetime(&self) -> Profile {
        self.told("freed", Snapshot::lifetime)
    }

    /// What was freed before its thread allocated anything else: what a buffer that is kept would save.
    pub fn temporary(&self) -> Profile {
        self.told("freed", Snapshot::temporary)
    }

    /// What `view` asks of this moment. One moment does not say what grows: for [`View::Growth`] it is what is in use.
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

    /// Bytes in use, estimated.
    pub fn live_bytes(&self) -> u64 {
        match &self.moment {
            Moment::Tables(snapshot) => snapshot.live_bytes(),
            #[cfg(feature = "jemalloc")]
            Moment::Dump(dump) => u64::try_from(dump.total(3)).unwrap_or(0),
        }
    }

    fn whole(&self) -> Profile {
        match &self.moment {
            Moment::Tables(snapshot) => snapshot.heap(),
            #[cfg(feature = "jemalloc")]
            Moment::Dump(dump) => (**dump).clone(),
        }
    }

    fn difference(&self, before: &Self) -> Profile {
        match (&self.moment, &before.moment) {
            (Moment::Tables(now), Moment::Tables(before)) => now.since(before),
            #[cfg(feature = "jemalloc")]
            _ => by_jemalloc::difference(self.whole(), before.whole()),
        }
    }

    /// What only the tables know; a dump does not, and its profile is empty and says so.
    fn told(&self, _kind: &str, tell: fn(&Snapshot) -> Profile) -> Profile {
        self.complete(match &self.moment {
            Moment::Tables(snapshot) => tell(snapshot),
            #[cfg(feature = "jemalloc")]
            Moment::Dump(_) => by_jemalloc::unknown(_kind),
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
