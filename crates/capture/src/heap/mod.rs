//! Who holds this process' memory, who allocates it, who frees it, and how long it lives.
//!
//! ```text
//!  #[global_allocator]                  Options::start()                     Snapshot::take()
//!  Alloc<A> ── every allocation ──►  countdown per thread ── samples ──►  ledger ──► profiles
//!     │            about a nanosecond                                       │  ╲
//!     └── inner allocator A                                  live table ────┘   ╲──► file that survives SIGKILL
//!                                                                                ╲─► emergency file near a limit
//! ```
//!
//! | to … | use |
//! |---|---|
//! | make the heap visible | [`Alloc`] as the program's allocator, then [`Options::start`] |
//! | look at it | [`snapshot`], [`freed`], [`lifetime`], [`temporary`], [`peak`]; or one [`Snapshot`] for several of them |
//! | compare two moments | [`Snapshot::since`], [`Snapshot::growth`], [`Windows`] |
//! | change the rate, pause, start over | [`set_mean`], [`stop`], [`Options::start`], [`reset`] |
//! | read what a killed process left | [`recover`] |
//! | use jemalloc's own sampling | [`jemalloc`] |
//! | limit what a test allocates | [`budget`] |
//!
//! # What the caller must know
//!
//! * Allocations before the start are unknown, and never counted as freed.
//! * Values are estimates, each sample weighted by its own size; objects larger than a few times the mean are
//!   practically all seen. `heap` profiles give the mean as their period.
//! * Libraries that are loaded later are known to the unwinder after the next snapshot.
//! * In the child of a `fork`, sampling continues with a copy of the tables; the files stay the parent's.

#![allow(unsafe_code, reason = "an allocator, and files that are written in it")]

mod alloc;
pub mod budget;
#[cfg(target_env = "gnu")]
pub mod c;
mod cgroup;
mod context;
mod emergency;
mod files;
mod form;
mod growth;
mod interval;
pub mod jemalloc;
mod kept_file;
mod ledger;
mod lifetime;
mod live;
mod modules;
mod options;
mod recover;
mod snapshot;
mod thread;
mod tracker;
mod watch;

pub use crate::Alloc;
pub use files::previous_file;
pub use growth::Windows;
pub use lifetime::Lifetime;
pub use options::{DEFAULT_MEAN, Options};
pub use recover::recover;
pub use snapshot::Snapshot;

use crate::{Error, ErrorKind, Result};
use flamelet_profile::Profile;

/// Returns whether the program's allocator is an [`Alloc`]; otherwise nothing is ever sampled.
pub fn is_installed() -> bool {
    let before = thread::position();
    drop(std::hint::black_box(Box::new(0u64)));
    thread::position() != before
}

/// Returns whether what C code allocates is known to go unseen.
fn misses_c() -> bool {
    #[cfg(target_env = "gnu")]
    if c::is_installed() {
        return false;
    }
    !jemalloc::sampling().is_some_and(|jemalloc| jemalloc.serves_c())
}

/// Returns the comment about what C code allocates and the profile does not include, and how to include it.
fn c_comment() -> Option<String> {
    let way = way_to_see_c(jemalloc::is_in_use(), HAS_MALLOC_MACRO);
    let comment =
        || format!("flamelet: memory that C code allocates is not in this profile; {way} includes it");
    misses_c().then(comment)
}

/// Whether `global_allocator!(malloc)` does more than `global_allocator!()`.
const HAS_MALLOC_MACRO: bool = cfg!(all(target_env = "gnu", not(target_feature = "crt-static")));

/// Returns how a program can see what C code allocates.
fn way_to_see_c(uses_jemalloc: bool, has_malloc_macro: bool) -> &'static str {
    match (uses_jemalloc, has_malloc_macro) {
        (false, true) => "flamelet::global_allocator!(malloc)",
        (true, _) => "the feature `jemalloc-for-c` with jemalloc's own sampling",
        (false, false) => {
            "flamelet::global_allocator!(jemalloc, profiling) with the feature `jemalloc-for-c` and jemalloc's own sampling"
        }
    }
}

/// Returns whether allocations are being sampled, by [`Alloc`] or by [`jemalloc`] itself.
pub fn is_running() -> bool {
    thread::mean() != 0 || jemalloc::sampling().is_some()
}

/// Stops sampling. What is tracked stays known, and its frees are still counted.
pub fn stop() {
    thread::set_mean(0);
    if let Some(jemalloc) = jemalloc::sampling() {
        // Starting took the same command: a jemalloc that refuses it does not sample.
        let _ = jemalloc.stop();
    }
}

/// Samples one byte in `mean` from now on, or once sampling is on again. What is tracked keeps the weight it was
/// sampled with. jemalloc's own sampling takes the nearest power of two, and its dumps start over.
pub fn set_mean(mean: u64) -> Result<()> {
    options::check_mean(mean)?;
    let Some(tracker) = tracker::tracker() else {
        return Err(Error::new(ErrorKind::Denied, "heap profiling was not started"));
    };
    if let Some(jemalloc) = jemalloc::sampling() {
        return jemalloc.change_mean(mean, tracker);
    }
    tracker.ledger.set(ledger::Field::Mean, mean);
    if is_running() {
        thread::set_mean(mean);
    }
    Ok(())
}

/// Forgets everything that was counted, including what is alive: the next profile starts at zero.
pub fn reset() {
    if let Some(tracker) = tracker::tracker() {
        tracker.ledger.reset();
    }
}

/// Runs `work` without sampling anything on this thread: what a profiler itself allocates is not the service's.
pub fn unaccounted<R>(work: impl FnOnce() -> R) -> R {
    let _inside = thread::Inside::enter();
    work()
}

/// Returns how often an emergency profile was written.
pub fn emergencies() -> u64 {
    emergency::written()
}

/// Returns how many sampled blocks are alive and tracked.
pub fn tracked_blocks() -> usize {
    tracker::tracker().map_or(0, |tracker| tracker.live.len())
}

/// The heap now, see [`Snapshot::heap`].
pub fn snapshot() -> Result<Profile> {
    Ok(Snapshot::take()?.heap())
}

/// Where memory is freed, see [`Snapshot::freed`].
pub fn freed() -> Result<Profile> {
    Ok(Snapshot::take()?.freed())
}

/// How long objects lived, see [`Snapshot::lifetime`].
pub fn lifetime() -> Result<Profile> {
    Ok(Snapshot::take()?.lifetime())
}

/// What was freed before its thread allocated anything else, see [`Snapshot::temporary`].
pub fn temporary() -> Result<Profile> {
    Ok(Snapshot::take()?.temporary())
}

/// The live set at its highest, see [`Snapshot::peak`].
pub fn peak() -> Result<Profile> {
    Ok(Snapshot::take()?.peak())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_includes_the_memory_of_c_is_something_that_does() {
        assert_eq!(way_to_see_c(false, true), "flamelet::global_allocator!(malloc)");
        // On musl and in static binaries, `(malloc)` is the same as `()`.
        for uses_jemalloc in [true, false] {
            let way = way_to_see_c(uses_jemalloc, false);
            assert!(way.contains("jemalloc-for-c") && !way.contains("(malloc)"), "{way}");
        }
    }
}
