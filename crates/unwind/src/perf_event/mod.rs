//! The structures of `perf_event_open`, as the kernel's header defines them: what an event is asked to record
//! ([`EventAttr`]), and the records that come out of a ring or lie in a file ([`RecordHeader`], [`Sample`], …).
//!
//! This is only the layout. System calls and rings belong to the samplers, perf.data's own records to its reader.
//! Nothing is trusted: a record that is too short is rejected.

mod attr;
mod bytes;
mod names;
mod records;
mod sample;

pub use attr::{EventAttr, SampleLayout, config, event_kind, flag, sample_bit};
pub use bytes::{ByteReader, WordArray};
pub use names::event_of_name;
pub use records::{Comm, Mmap, RecordHeader, TaskChange, misc, record_kind};
pub use sample::{NATIVE_REGISTERS, Sample, UserRegisters, callchain, callchain_frames};

/// Requests of `ioctl` for an open event, and the flag of `perf_event_open` that closes it on `exec`.
pub mod control {
    /// The flag `PERF_FLAG_FD_CLOEXEC`.
    pub const CLOSE_ON_EXEC: u64 = 8;
    /// Starts the event.
    pub const ENABLE: u64 = 0x2400;
    /// Stops the event.
    pub const DISABLE: u64 = 0x2401;
    /// Writes the event's records to another event's ring.
    pub const SET_OUTPUT: u64 = 0x2405;
    /// Returns the number that the event's records carry.
    pub const ID: u64 = 0x8008_2407;
}

/// Offsets in the first page of a ring, in bytes.
pub mod ring_page {
    /// The position up to which the kernel has written.
    pub const DATA_HEAD: usize = 1024;
    /// The position up to which the records were taken.
    pub const DATA_TAIL: usize = 1032;
    /// Where the records begin; 0 before Linux 4.1, where it is the second page.
    pub const DATA_OFFSET: usize = 1040;
}
