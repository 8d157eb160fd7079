//! The executable ranges of a file, by address in the file, in order and apart from each other.

use std::ops::Range;

/// Returns whether one of the ranges contains `address`. A damaged file may have very many, and a function for each byte.
pub(crate) fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    let after = ranges.partition_point(|range| range.start <= address);
    ranges[..after].last().is_some_and(|range| address < range.end)
}
