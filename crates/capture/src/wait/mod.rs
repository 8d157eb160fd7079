//! What the threads and tasks of this process wait for.
//!
//! | what | where |
//! |---|---|
//! | locks, condition variables, channels: everything that waits by futex | [`locks`] |
//! | tasks of async code: where they await, and how their time is spent | [`tasks`] |
//! | all threads, running or not, over some time | [`wall`] |
//! | all threads at this moment | [`threads`] |
//!
//! Each kind of wait is counted by its stack in a table of its own (`Delays`), which hooks write to without a lock
//! and without allocating, and of which profiles are made.

mod calls;
mod delays;
#[allow(unsafe_code, reason = "takes the place of a C function, and makes system calls")]
pub mod locks;
mod moments;
mod profile;
#[allow(unsafe_code, reason = "a signal handler")]
mod stacks;
pub mod tasks;
pub mod threads;
pub mod wall;

pub use delays::{Row, Rows};
pub use profile::{Mapped, Side, add_stack, profile};

pub(crate) use delays::Delays;
