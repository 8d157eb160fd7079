//! Records a program from inside, with a preloaded library, which needs no permission from the kernel.
//!
//! | to … | use |
//! |---|---|
//! | know what a program allocates | [`heap::record`] |
//! | sample its CPU time where `perf_event_open` is forbidden | [`cpu::record`] |
//!
//! The libraries come with the `flamelet` command; callers pass their bytes ([`Library`]). Each process of the
//! command, including children and what they `exec`, writes its own files into the folder of the recording. They are
//! read while it runs and after it ends, in whatever way it ends.

mod assemble;
pub mod cpu;
mod folder;
mod generated;
pub mod heap;
mod heap_summary;
mod library;
mod private;
mod program;
mod running;

/// A shared library to be loaded into the command, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The content of the file; empty if the command was built without it.
    pub bytes: &'static [u8],
    /// The name of the file.
    pub name: &'static str,
}
