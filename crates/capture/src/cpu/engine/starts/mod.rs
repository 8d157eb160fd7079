//! Threads that make their timers themselves, as they start.
//!
//! A program that defines the C function `pthread_create` itself, and calls [`pthread_create`] in it, lets every thread it
//! starts make its own timer before its first instruction, and delete it at its end. Then there is no need to look for new threads
//! many times a second, and threads that live for a millisecond are sampled like all others. The macro
//! `flamelet::thread_sampling!` defines the function.
//!
//! ```text
//!  pthread_create ─► is a timer engine running? ─► the thread begins in `begin` ─► makes its timer ─► its own function
//!                                                                                      │
//!                             the engine changes its period, rests or ends ─► takes the timers of all threads away
//! ```
//!
//! # Why short threads are seen in proportion
//!
//! The kernel looks for timers that are due at its ticks. A thread that runs for less than a tick is found with the
//! probability running time / tick, and then stands for a whole tick. So a timer first expires after a whole number of
//! ticks, chosen at random below the period: `1 + t / tick` of `period / tick` timers have expired at a tick that finds
//! the thread after the time `t`, which is what the ticks so far stand for. A period is at least a tick.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod hook;
mod slots;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use hook::{pthread_create, resolve_create};

pub(super) use slots::{begin, end, is_installed, list};

/// In the child of a fork: forgets the parent's threads, whose timers the child does not have. Async-signal-safe.
pub(crate) fn forget_parent() {
    slots::forget_all();
}
