//! The system calls of a recording, each behind a safe function. All `unsafe` of this crate lives here.
#![allow(
    unsafe_code,
    reason = "perf_event_open, its rings, process_vm_readv, statvfs and others have no safe wrapper in std"
)]

pub(crate) mod event;
pub(crate) mod files;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod ptrace;
pub(crate) mod ring;
pub(crate) mod sched;
pub(crate) mod spare;
