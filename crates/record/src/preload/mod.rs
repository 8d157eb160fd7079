//! Recording a program from inside, by a library that the loader puts into it: no right of the kernel is needed.
//!
//! | to … | use |
//! |---|---|
//! | know what a program allocates | [`heap::record`] |
//! | sample its CPU time where `perf_event_open` is forbidden | [`cpu::record`] |
//!
//! The libraries come with the `flamelet` command; callers hand over their bytes ([`Library`]). Each process of the
//! command, children and what they `exec` included, writes files of its own into a folder of this recording, which
//! are read while it runs and after its end, whatever that end was.

mod assemble;
pub mod cpu;
mod folder;
pub mod heap;
mod heap_summary;
mod library;
mod private;
mod program;
mod running;

/// A shared library to be loaded into the command, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// What is in the file; empty where the command was built without it.
    pub bytes: &'static [u8],
    /// What the file is called.
    pub name: &'static str,
}
