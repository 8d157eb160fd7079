//! The library that `flamelet record --heap -- CMD…` loads into `CMD` before everything else.
//!
//! It replaces the C library's allocation functions, passes every call on, and counts it under the stack that made
//! it. [`flamelet_preload_ledger`] defines what it writes, and where.
//!
//! ```text
//!  hooks ─► malloc, free, … ─► next (the allocator that would have been called)
//!    │ block, size, the caller's registers
//!    ▼
//!  record ─► walker: the stack, most of it known from the time before
//!     │        └─► tree: its node, found or made ─► file: nodes, mapped shared
//!     ├─► blocks: address ─► node and size, in private memory
//!     └─► counts of the node, and the peak
//! ```
//!
//! # What it must not do in a program that is not ours
//!
//! * No lock that a thread can hold for long or while it is interrupted: blocks and counts are atomics; the few locks
//!   (growing a table, loading modules) are held by threads that do nothing else, and reset after `fork`.
//! * No allocation through the hooks: its own memory comes from `next` directly, and a thread inside the library is
//!   marked, so that what libraries allocate on our behalf is not counted.
//! * No thread-local storage that is created on demand: creating it would allocate. See `slot`.
//! * Never end the program: what cannot be recorded (no room on the disk, no address space) is counted as such.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(unsafe_code, reason = "takes the place of malloc")]

mod blocks;
mod errno;
mod file;
mod fork;
mod hooks;
mod map;
mod next;
mod own_memory;
mod record;
mod sampling;
mod slot;
mod start;
mod thread;
mod tree;
mod walker;
