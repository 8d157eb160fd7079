//! Sampling inside this process: where its CPU time goes, who holds its memory.
//!
//! | to … | use |
//! |---|---|
//! | sample CPU time, once or always | [`cpu`] |
//! | see who holds memory, and profile the heap of a killed process | [`heap`] |
//! | say what a thread or a future is working on | [`labels`] |
//!
//! The result is a [`Profile`](flamelet_profile::Profile) of addresses, mappings and build ids. `flamelet-symbol`
//! looks up the names, on this machine or another.
//!
//! Works on Linux on x86_64 and aarch64. Elsewhere the crate compiles and every start returns
//! [`ErrorKind::Unsupported`].

// Elsewhere nothing samples, so the code that handles samples has no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod clock;
pub mod cpu;
mod error;
#[cfg(target_os = "linux")]
pub mod heap;
pub mod labels;
#[allow(unsafe_code, reason = "sets the signal mask of a thread")]
pub mod own_threads;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "asks the kernel which thread this is")]
mod threads;

pub use error::{Error, ErrorKind, Result};
/// The profiles that captures return, for crates that use this one.
pub use flamelet_profile as profile;
