//! Unwinding: from registers and stack bytes to return addresses.
//!
//! Ordinary release builds have no frame pointers; what they do have is `.eh_frame`. This crate decodes it
//! once per module into a compact [`Table`] (a few percent of the text, one or two cache lines a lookup),
//! and one [`walk`] follows it through any stack whose bytes can be read:
//!
//! | to unwind … | use |
//! |---|---|
//! | a thread of this process, in a signal handler or in an allocator | [`live`] |
//! | a copy of another process' registers and stack | [`walk`] over a [`Dump`], with [`Modules`] of that process |
//! | what `perf_event_open` recorded | [`perf_event`] reads the registers and the stack of a sample |
//! | anything else whose memory can be read | [`walk`] over your own [`Memory`] |
//!
//! | to know which module an address was in … | use |
//! |---|---|
//! | in this process, later | [`History`]: a sample carries the [`Era`] that it was taken in |
//! | in another process, as its records come | [`AddressSpace`] |
//!
//! # What comes out
//!
//! Addresses, leaf first. The first is the program counter itself; every caller is given as its **return address
//! minus one**, that is an address *inside* the call instruction, so each address can be symbolized as it is. (Frames
//! that a signal interrupted are exact, like the leaf.) [`Unwound::end`] says whether the stack reached the thread's
//! start or why it did not; nothing is ever made up to make it look complete.
//!
//! # What the caller must do
//!
//! In a signal handler, call only what [`live`] marks as async-signal-safe. Call [`live::refresh`] from an ordinary
//! thread at start and now and then, so that libraries loaded later are known.
//!
//! # How it works
//!
//! `elf` finds `.eh_frame` in a file or in memory → `eh_frame` turns its instructions into rules (`go` does the same for
//! programs in Go, which have a table of their own) → `table`
//! packs rules into rows → `module` places tables in an address space → `walk` steps from frame to frame
//! with the rules of `arch/x86_64` or `arch/aarch64`. Both machines are compiled everywhere (a dump may come
//! from another machine); only reading this thread's own registers depends on the target.

// Elsewhere nothing samples, so the code that handles samples has no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod address_space;
mod arch;
mod eh_frame;
mod elf;
mod end;
mod error;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "keeps values and locks apart by process, and calls the C library")]
pub mod fork;
mod go;
mod history;
pub mod live;
mod memory;
mod module;
pub mod perf_event;
mod rule;
mod rule_cache;
mod table;
mod text;
mod trampolines;
mod walk;

pub use address_space::{AddressSpace, Eras};
pub use arch::{Architecture, Registers};
pub use elf::Image;
pub use end::{End, Reason};
pub use error::{Error, ErrorKind, Result};
pub use history::{Era, History};
pub use memory::{Dump, Memory};
pub use module::{Module, Modules};
pub use table::Table;
pub use walk::{Unwound, walk};

/// The deepest stack that captures keep by default.
pub const MAX_DEPTH: usize = 1024;
