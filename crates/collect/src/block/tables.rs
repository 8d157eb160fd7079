//! The tables of a block, in memory.

use std::collections::HashMap;
use std::sync::Arc;

use flamelet_profile::budget::hash_entry;
use flamelet_store::ContentHash;
use rustc_hash::FxBuildHasher;

use crate::series::Series;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockTables {
    /// By their hashes, sorted, as the others are.
    pub(crate) series: Vec<(u128, Series)>,
    /// By their hashes, each with its locations, leaf first.
    pub(crate) stacks: Vec<(u128, Vec<u128>)>,
    pub(crate) locations: Vec<(u128, Arc<CodeLocation>)>,
    /// Sorted by series, time, profile and stack.
    pub(crate) samples: Vec<SampleRow>,
    /// Stacks and locations that it has in common with other blocks.
    pub(crate) shared: Vec<Arc<SharedCode>>,
}

impl BlockTables {
    /// Returns a series; like the other tables, they are sorted.
    pub(crate) fn series(&self, hash: u128) -> Option<&Series> {
        find(&self.series, hash)
    }

    /// Returns the locations of a stack.
    pub(crate) fn stack(&self, hash: u128) -> Option<&Vec<u128>> {
        find(&self.stacks, hash).or_else(|| self.shared.iter().find_map(|code| code.stack(hash)))
    }

    pub(crate) fn location(&self, hash: u128) -> Option<&Arc<CodeLocation>> {
        find(&self.locations, hash).or_else(|| self.shared.iter().find_map(|code| code.location(hash)))
    }
}

fn find<T>(table: &[(u128, T)], hash: u128) -> Option<&T> {
    let at = table.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
    Some(&table[at].1)
}

/// Stacks and their locations, by their hashes, which blocks of a program have in common.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedCode {
    stacks: HashMap<u128, Vec<u128>, FxBuildHasher>,
    locations: HashMap<u128, Arc<CodeLocation>, FxBuildHasher>,
}

impl SharedCode {
    pub(crate) fn new(stacks: Vec<(u128, Vec<u128>)>, locations: Vec<(u128, Arc<CodeLocation>)>) -> Self {
        Self { stacks: stacks.into_iter().collect(), locations: locations.into_iter().collect() }
    }

    /// Returns whether it has every location of its stacks.
    pub(super) fn is_whole(&self) -> bool {
        self.stacks.values().flatten().all(|location| self.locations.contains_key(location))
    }

    /// Returns the hashes of its stacks.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = u128> {
        self.stacks.keys().copied()
    }

    pub(crate) fn locations(&self) -> impl Iterator<Item = &Arc<CodeLocation>> {
        self.locations.values()
    }

    pub(crate) fn stack(&self, hash: u128) -> Option<&Vec<u128>> {
        self.stacks.get(&hash)
    }

    pub(crate) fn location(&self, hash: u128) -> Option<&Arc<CodeLocation>> {
        self.locations.get(&hash)
    }

    /// Returns about how much memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let stacks: usize = self.stacks.values().map(|list| Self::memory_of_stack(list.len())).sum();
        let locations: usize = self.locations.values().map(|one| Self::memory_of_location(one)).sum();
        stacks + locations
    }

    pub(crate) fn memory_of_stack(depth: usize) -> usize {
        hash_entry(48) + depth * size_of::<u128>()
    }

    pub(crate) fn memory_of_location(location: &CodeLocation) -> usize {
        hash_entry(32) + location.memory()
    }
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
        let frames = self.frames.iter();
        let frames = frames.map(|frame| (&*frame.function, &*frame.system_name, &*frame.file, frame.line));
        location_hash((&self.build_id, &self.mapping, self.offset), frames, &mut Vec::new())
    }

    /// Returns about how much memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let texts = |frame: &BlockFrame| frame.function.len() + frame.system_name.len() + frame.file.len();
        let frames: usize = self.frames.iter().map(|frame| size_of::<BlockFrame>() + 48 + texts(frame)).sum();
        size_of::<Self>() + frames + self.build_id.len() + self.mapping.len() + 96
    }
}

/// Returns the hash of a location, from its build id, file and offset, and its functions.
pub(super) fn location_hash<'t>(
    (build_id, mapping, offset): (&str, &str, u64),
    frames: impl Iterator<Item = (&'t str, &'t str, &'t str, i64)>,
    buffer: &mut Vec<u8>,
) -> u128 {
    buffer.clear();
    let mut text = |text: &[u8]| {
        buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
        buffer.extend_from_slice(text);
    };
    [build_id.as_bytes(), mapping.as_bytes(), &offset.to_le_bytes()].into_iter().for_each(&mut text);
    for (function, system_name, file, line) in frames {
        [function, system_name, file].into_iter().for_each(|name| text(name.as_bytes()));
        text(&line.to_le_bytes());
    }
    ContentHash::of_bytes(buffer).0
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
