//! Reads a file with counts: any bytes at all, even of a file that is being written.

use std::fmt;
use std::mem::offset_of;

use crate::{FIRST_FRAME, Header, LANES, Lane, MAGIC, NODES_AT, NUMBER_BITS, Node, PutAside};

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
    let lanes = (0..LANES).map(|lane| offset_of!(Header, lanes) + lane * size_of::<Lane>());
    let live = lanes.filter_map(|lane| word(bytes, lane + offset_of!(Lane, live))).fold(0, u64::wrapping_add);
    let peak = header(offset_of!(Header, peak))? as i64;
    // A thread does not look at the peak each time, so there may be a new one.
    let is_peak_now = live as i64 > peak;
    let peak_turn = (!is_peak_now).then_some(header(offset_of!(Header, peak_turn))? as u32);
    let nodes: Vec<&[u8]> = there.chunks_exact(size_of::<Node>()).take(told).collect();
    let rows = (0..nodes.len()).map(|number| row(number, &nodes, peak_turn)).collect();
    Ok(AllocationCounts {
        pid: header(offset_of!(Header, pid))? as u32,
        started_nanos: header(offset_of!(Header, started_nanos))? as i64,
        mean: header(offset_of!(Header, mean))?,
        missed: header(offset_of!(Header, missed))?,
        peak: peak.max(live as i64).max(0) as u64,
        rows,
    })
}

/// Returns a node. Without `peak_turn`, what is alive now is what was at the peak.
fn row(number: usize, nodes: &[&[u8]], peak_turn: Option<u32>) -> ReadNode {
    let get = |offset: usize| word(nodes[number], offset).unwrap_or(0);
    let half = |offset: usize| get(offset & !7) >> (8 * (offset & 7)) & 0xffff_ffff;
    let elsewhere = match half(offset_of!(Node, elsewhere)) as usize {
        0 => None,
        elsewhere => nodes.get(elsewhere),
    };
    let sum = |offset: usize| {
        let other = elsewhere.and_then(|bytes| word(bytes, offset)).unwrap_or(0);
        get(offset).wrapping_add(other)
    };
    let (allocations, allocated) = (get(offset_of!(Node, allocations)), get(offset_of!(Node, allocated)));
    // The counts are read a moment apart, so a free may be seen and its allocation not.
    let live = allocations.saturating_sub(sum(offset_of!(Node, frees)));
    let live_bytes = allocated.saturating_sub(sum(offset_of!(Node, freed)));
    let peak = PutAside(get(offset_of!(Node, peak)));
    let parent = half(offset_of!(Node, parent)) as u32 & ((1 << NUMBER_BITS) - 1);
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
        peak: if peak_turn.is_some_and(|turn| peak.is_of(turn)) { peak.bytes() } else { live_bytes },
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
        put(offset_of!(Header, peak), 1000);
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
    fn what_other_lanes_freed_is_subtracted_and_the_peak_may_be_now() {
        let words = [
            (3, offset_of!(Node, parent), 4 << 32 | 2 << NUMBER_BITS | 2),
            (3, offset_of!(Node, allocations), 5),
            (3, offset_of!(Node, allocated), 500),
            (3, offset_of!(Node, peak), PutAside::new(9, 64).0),
            (4, offset_of!(Node, frees), 2),
            (4, offset_of!(Node, freed), 100),
        ];
        let mut bytes = file(5, &words);
        let row = read(&bytes).expect("whole").rows[3];
        assert_eq!((row.parent, row.live, row.live_bytes, row.peak), (2, 3, 400, 64));
        // Two lanes, one of which frees what the other has allocated.
        for (lane, live) in [(1, 1101i64), (2, -100)] {
            let at = offset_of!(Header, lanes) + lane * size_of::<Lane>() + offset_of!(Lane, live);
            bytes[at..at + 8].copy_from_slice(&live.to_ne_bytes());
        }
        let counts = read(&bytes).expect("whole");
        assert_eq!((counts.peak, counts.rows[3].peak), (1001, 400));
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
