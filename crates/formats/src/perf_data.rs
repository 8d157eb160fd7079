//! The file that `perf record` writes: records of samples, mappings, threads and processes, in file or pipe mode.
//!
//! ```text
//! file: the header, attrs, and later features → stream: records, unpacked → rounds: records by time
//!     → replay: processes and their modules, samples → stacks
//! ```
//!
//! The file is read once from front to back, into blocks where the records stay; memory is bounded by two rounds of
//! perf's buffers, whatever the size of the file. Most samples repeat an earlier stack: the replay looks it up by its
//! bytes, so that only new stacks are parsed. Addresses are kept and symbolized elsewhere; callers are given as
//! addresses inside their call instruction. Dumped user stacks (`--call-graph dwarf`) are unwound by the replay, with
//! the files that the recording names, as far as they still exist.

mod blocks;
mod dumps;
mod features;
mod images;
mod inflate;
mod own_records;
mod processes;
mod replay;
mod rounds;
mod source;
mod sparse;
mod stream;
#[cfg(test)]
mod tests;

use flamelet_profile::{Profile, Result};

use crate::input::Input;
use crate::{FormatOptions, Notes};

/// Returns whether `head` is a perf.data file of either byte order, or of version 1.
pub(crate) fn recognise(head: &[u8]) -> bool {
    [&b"PERFILE2"[..], b"2ELIFREP", VERSION_1].iter().any(|magic| head.starts_with(magic))
}

/// Version 1, which perf wrote until 2012: laid out like version 2, but only the sizes show the byte order.
const VERSION_1: &[u8] = b"PERFFILE";

/// Returns whether the numbers of the file are big-endian.
fn is_big_endian(head: &[u8]) -> bool {
    let size = head.get(8..16).and_then(|size| size.try_into().ok()).map_or(0, u64::from_le_bytes);
    head.starts_with(b"2") || (head.starts_with(VERSION_1) && size > u64::from(u32::MAX))
}

/// Reads perf.data.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let mut stream = stream::Stream::open(input, budget)?;
    let mut replay = replay::Replay::new(options, budget);
    stream.each_record(&mut replay)?;
    replay.finish(&stream.features, notes)
}
