//! Reads a file with counts: any bytes at all, even of a file that is being written.

use std::fmt;
use std::mem::offset_of;

use crate::{FIRST_FRAME, Header, MAGIC, NODES_AT, Node, PutAside};

/// What a process allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationCounts {
    /// The process.
    pub pid: u32,
    /// When it started, in nanoseconds since 1970.
    pub started_nanos: i64,
    /// Bytes between samples; 0 for every allocation.
    pub mean: u64,
    /// Allocations that were not recorded.
    pub missed: u64,
    /// The highest number of bytes alive at one moment (an estimate where allocations are sampled).
    pub peak: u64,
    /// The nodes by number; those before [`FIRST_FRAME`] have only counts.
    pub rows: Vec<ReadNode>,
}

/// A node as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadNode {
    /// See [`crate::address_parts`].
    pub address: u64,
    /// The caller; less than the number of this node.
    pub parent: u32,
    /// Calls of allocation functions.
    pub allocations: u64,
    /// The bytes that they requested.
    pub allocated: u64,
    /// How many of them are alive …
    pub live: u64,
    /// … and their bytes.
    pub live_bytes: u64,
    /// Freed right after they were allocated.
    pub temporary: u64,
    /// Bytes alive at the peak.
    pub peak: u64,
}

/// The bytes are not what the library writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedError;

impl fmt::Display for DamagedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an allocation count file, or damaged")
    }
}

impl std::error::Error for DamagedError {}

/// Reads the bytes of a file with counts.
pub fn read(bytes: &[u8]) -> Result<AllocationCounts, DamagedError> {
    let header = |offset: usize| word(bytes, offset).ok_or(DamagedError);
    if header(offset_of!(Header, magic))? != MAGIC {
        return Err(DamagedError);
    }
    let there = bytes.get(NODES_AT..).unwrap_or_default();
    let told = usize::try_from(header(offset_of!(Header, nodes))?).unwrap_or(usize::MAX);
    let peak_turn = header(offset_of!(Header, peak_turn))? as u32;
    let nodes = there.chunks_exact(size_of::<Node>()).take(told).enumerate();
    let rows = nodes.map(|(number, bytes)| row(number, bytes, peak_turn)).collect();
    Ok(AllocationCounts {
        pid: header(offset_of!(Header, pid))? as u32,
        started_nanos: header(offset_of!(Header, started_nanos))? as i64,
        mean: header(offset_of!(Header, mean))?,
        missed: header(offset_of!(Header, missed))?,
        peak: header(offset_of!(Header, peak))?,
        rows,
    })
}

fn row(number: usize, bytes: &[u8], peak_turn: u32) -> ReadNode {
    let get = |offset: usize| word(bytes, offset).unwrap_or(0);
    let half = |offset: usize| get(offset & !7) >> (8 * (offset & 7)) & 0xffff_ffff;
    let (allocations, allocated) = (get(offset_of!(Node, allocations)), get(offset_of!(Node, allocated)));
    // The counts are read a moment apart, so a free may be seen and its allocation not.
    let live = allocations.saturating_sub(get(offset_of!(Node, frees)));
    let live_bytes = allocated.saturating_sub(get(offset_of!(Node, freed)));
    let peak = PutAside(get(offset_of!(Node, peak)));
    let parent = half(offset_of!(Node, parent)) as u32;
    // A caller is always made first, so walks to the root end, whatever the bytes are.
    let is_sound = (parent as usize) < number || number < FIRST_FRAME as usize;
    ReadNode {
        address: get(offset_of!(Node, address)),
        parent: if is_sound { parent } else { crate::TRUNCATED },
        allocations,
        allocated,
        live,
        live_bytes,
        temporary: get(offset_of!(Node, temporary)),
        peak: if peak.is_of(peak_turn) { peak.bytes() } else { live_bytes },
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(nodes: u64, words: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; NODES_AT + 64 * nodes as usize];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        put(offset_of!(Header, magic), MAGIC);
        put(offset_of!(Header, nodes), nodes);
        put(offset_of!(Header, pid), 7);
        put(offset_of!(Header, peak_turn), 9);
        for &(node, offset, value) in words {
            put(NODES_AT + 64 * node + offset, value);
        }
        bytes
    }

    #[test]
    fn a_node_says_what_is_alive_now_and_was_at_the_peak() {
        let bytes = file(
            5,
            &[
                (3, offset_of!(Node, allocations), 5),
                (3, offset_of!(Node, allocated), 500),
                (3, offset_of!(Node, frees), 2),
                (3, offset_of!(Node, freed), 100),
                (4, offset_of!(Node, parent), 3),
                (4, offset_of!(Node, peak), PutAside::new(9, 64).0),
                (3, offset_of!(Node, peak), PutAside::new(8, 7).0),
            ],
        );
        let counts = read(&bytes).expect("whole");
        assert_eq!((counts.pid, counts.rows.len()), (7, 5));
        let row = counts.rows[3];
        assert_eq!((row.live, row.live_bytes, row.peak), (3, 400, 400), "unchanged since the peak");
        assert_eq!((counts.rows[4].parent, counts.rows[4].peak, counts.rows[4].live_bytes), (3, 64, 0));
    }

    #[test]
    fn walks_to_the_root_end_whatever_the_bytes_are() {
        let bytes = file(6, &[(4, offset_of!(Node, parent), 5), (5, offset_of!(Node, parent), 5)]);
        let counts = read(&bytes).expect("readable");
        assert!(counts.rows.iter().enumerate().skip(3).all(|(number, row)| (row.parent as usize) < number));
        for length in [0, 7, 8, 100, NODES_AT, bytes.len() - 1] {
            let _ = read(&bytes[..length]);
        }
        assert_eq!(read(&bytes[..bytes.len() - 1]).expect("cut").rows.len(), 5);
        assert_eq!(read(&[0; 9000]), Err(DamagedError));
    }
}
