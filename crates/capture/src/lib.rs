//! Sampling inside this process: where its CPU time goes, who holds its memory, what its threads and tasks wait for.
//!
//! | to … | use |
//! |---|---|
//! | sample CPU time, once or always | [`cpu`] |
//! | see who holds memory, and profile the heap of a killed process | [`heap`] |
//! | see what threads and tasks wait for | [`wait`] |
//! | say what a thread or a future is working on | [`labels`] |
//!
//! What comes out is a [`Profile`](flamelet_profile::Profile) of addresses, mappings and build ids. Names are
//! not looked up here: that is `flamelet-symbol`'s work, on this machine or another.
//!
//! Linux on x86_64 and aarch64. Elsewhere the crate compiles, and every start returns an error of the
//! kind [`ErrorKind::Unsupported`].

// Elsewhere nothing samples, so that what samples would go through has no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod allocator;
#[cfg(target_os = "linux")]
mod atomics;
mod clock;
pub mod cpu;
#[cfg(target_os = "linux")]
mod descriptor;
#[cfg(target_os = "linux")]
pub mod heap;
pub mod labels;
mod loaded_modules;
#[cfg(all(test, target_os = "linux"))]
#[allow(unsafe_code, reason = "a test of memory that is not atomic")]
mod model;
#[cfg(all(
    feature = "otel-context",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod otel;
#[allow(unsafe_code, reason = "sets the signal mask of a thread")]
pub mod own_threads;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "asks the kernel which thread this is")]
mod threads;
#[cfg(target_os = "linux")]
pub mod wait;

/// For values that the child of a fork must not share with its parent.
#[cfg(target_os = "linux")]
pub mod fork {
    pub use flamelet_unwind::fork::{Lock, PerProcess};
}

pub use allocator::Alloc;
/// What captures give, for crates that use this one.
pub use flamelet_profile as profile;
pub use flamelet_profile::{Error, ErrorKind, Result};
