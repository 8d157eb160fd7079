//! The tables of a block, in memory.

use std::sync::Arc;

use crate::series::{Series, hash_texts};

/// The tables of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockTables {
    /// By their hashes, sorted, as the others are.
    pub(crate) series: Vec<(u128, Series)>,
    /// By their hashes, each with its locations, leaf first.
    pub(crate) stacks: Vec<(u128, Vec<u128>)>,
    pub(crate) locations: Vec<(u128, CodeLocation)>,
    /// Sorted by series, time, profile and stack.
    pub(crate) samples: Vec<SampleRow>,
}

impl BlockTables {
    /// Returns a series; like the other tables, they are sorted.
    pub(crate) fn series(&self, hash: u128) -> Option<&Series> {
        find(&self.series, hash)
    }

    /// Returns the locations of a stack.
    pub(crate) fn stack(&self, hash: u128) -> Option<&Vec<u128>> {
        find(&self.stacks, hash)
    }

    pub(crate) fn location(&self, hash: u128) -> Option<&CodeLocation> {
        find(&self.locations, hash)
    }
}

fn find<T>(table: &[(u128, T)], hash: u128) -> Option<&T> {
    let at = table.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
    Some(&table[at].1)
}

/// A place in code: where it is, and the functions there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodeLocation {
    pub(crate) build_id: String,
    /// The file that the code was mapped from.
    pub(crate) mapping: String,
    /// The offset in that file, or the address without one.
    pub(crate) offset: u64,
    /// Innermost first: several where functions are inlined, none if the names are not known.
    pub(crate) frames: Vec<BlockFrame>,
}

/// A function at a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockFrame {
    pub(crate) function: String,
    pub(crate) system_name: String,
    pub(crate) file: String,
    pub(crate) line: i64,
}

impl CodeLocation {
    /// Returns what identifies the location on any machine: all that is known about it.
    pub(crate) fn hash(&self) -> u128 {
        let offset = self.offset.to_le_bytes();
        let lines: Vec<[u8; 8]> = self.frames.iter().map(|frame| frame.line.to_le_bytes()).collect();
        let frames = self.frames.iter().zip(&lines).flat_map(|(frame, line)| {
            [frame.function.as_bytes(), frame.system_name.as_bytes(), frame.file.as_bytes(), line]
        });
        hash_texts([self.build_id.as_bytes(), self.mapping.as_bytes(), &offset].into_iter().chain(frames))
    }
}

/// How much of one series was observed on one stack, in one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleRow {
    pub(crate) series: u128,
    /// When the profile begins, in nanoseconds since 1970, and how long it is.
    pub(crate) time: i64,
    pub(crate) duration: i64,
    /// The hash of the profile; 0 in a block of the first format.
    pub(crate) profile: u128,
    pub(crate) stack: u128,
    pub(crate) value: i64,
    /// Rows with the same id share it.
    pub(crate) trace: Option<Arc<str>>,
    pub(crate) span: Option<Arc<str>>,
}

impl SampleRow {
    /// Returns what rows are sorted by; rows that agree in it are one.
    pub(crate) fn key(&self) -> impl Ord + '_ {
        (self.series, self.time, self.duration, self.profile, self.stack, &self.trace, &self.span)
    }
}
