//! Unwinds stacks whose dumps were left in the file.

use std::fs::File;

use flamelet_unwind::Unwound;

use super::sparse::{DumpPlace, read_at};

/// How much of a dump is looked at first: the minimum, the initial value and the maximum.
const LEAST_PART: usize = 1 << 10;
const FIRST_PART: usize = 4 << 10;
const MOST_PART: usize = 64 << 10;

/// Dumps that were left in the file. Most stacks need only part of theirs; the size of that part is adjusted as dumps
/// are unwound.
pub(super) struct Dumps {
    bytes: Vec<u8>,
    part: usize,
}

impl Default for Dumps {
    fn default() -> Self {
        Self { bytes: Vec::new(), part: FIRST_PART }
    }
}

impl Dumps {
    /// Returns how much of a dump most stacks need.
    pub(super) fn part(&self) -> usize {
        self.part
    }

    /// Unwinds over the first part of a dump, and over all of it if that does not reach the stack's start. `first`
    /// has been read already.
    pub(super) fn unwind(
        &mut self,
        file: &File,
        dump: DumpPlace,
        first: &[u8],
        mut walk_over: impl FnMut(&[u8]) -> Unwound,
    ) -> Option<Unwound> {
        let used = dump.used as usize;
        let part = self.part.min(used).max(first.len());
        let unwound = walk_over(if first.len() == part { first } else { self.load(file, dump.at, part)? });
        if unwound.end.is_rooted() || part == used {
            // The part shrinks again while hardly any stack needs more.
            self.part = (self.part - 8).max(LEAST_PART);
            return (part > 0).then_some(unwound);
        }
        self.part = (self.part + 512).min(MOST_PART);
        Some(walk_over(self.load(file, dump.at, used)?))
    }

    fn load(&mut self, file: &File, at: u64, count: usize) -> Option<&[u8]> {
        self.bytes.resize(count.max(self.bytes.len()), 0);
        let got = read_at(file, &mut self.bytes[..count], at).ok()?;
        (got == count).then_some(&self.bytes[..count])
    }
}
