//! Which entries the frames of each location stand for.

use std::ops::Range;

use flamelet_profile::LocationId;

/// The entries of each location's frames, innermost first. The table's owner defines what an entry is: a node of a
/// report, or a name.
#[derive(Clone, Debug)]
pub(crate) struct FrameTable {
    /// Where the frames of each location start in `entries`; has one element more than there are locations.
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl FrameTable {
    pub(crate) fn with_capacity(locations: usize) -> Self {
        let mut starts = Vec::with_capacity(locations + 1);
        starts.push(0);
        Self { starts, entries: Vec::with_capacity(locations) }
    }

    /// Adds the next location.
    pub(crate) fn push(&mut self, entries: impl IntoIterator<Item = u32>) {
        self.entries.extend(entries);
        self.starts.push(u32::try_from(self.entries.len()).expect("a profile holds fewer than 2^32 lines"));
    }

    /// Returns the entries of a location, innermost inlined frame first.
    #[inline]
    pub(crate) fn at(&self, location: LocationId) -> &[u32] {
        &self.entries[self.range(location)]
    }

    /// Returns where the entries of a location are among all entries.
    #[inline]
    pub(super) fn range(&self, location: LocationId) -> Range<usize> {
        let at = location.index();
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    pub(super) fn byte_size(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.entries)
    }
}
