//! Tables that a hook or a signal handler writes to: no lock, no allocation, memory straight from the kernel.

pub(crate) mod context_words;
mod hash;
mod index;
#[allow(unsafe_code, reason = "maps memory")]
pub(crate) mod memory;
mod records;

pub(crate) use context_words::ContextWords;
pub(crate) use hash::{hash, mix, next_random};
pub(crate) use index::Index;
pub(crate) use records::Records;
