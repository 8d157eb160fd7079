//! Converts an address in a process to the address that the file's own tables use.
//!
//! A profile says where a file was mapped (start, limit, offset). The file's symbols and debug information use the
//! addresses that the linker chose. The program headers relate the two, since linkers (lld above all) put code at
//! addresses that differ from its offset in the file.

use crate::elf::Segment;

/// Segments are mapped in whole pages. Larger pages only add bytes before the segment's start.
const PAGE: u64 = 4096;

/// Where a file was mapped into a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MappedAt {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub limit: u64,
    /// The offset in the file of the byte at `start`.
    pub offset: u64,
}

/// Converts addresses of one mapping to addresses of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// What to add, wrapping.
    bias: u64,
}

impl Translation {
    /// For addresses that are already the file's own.
    pub(crate) const NONE: Self = Self { bias: 0 };

    /// Computes how the addresses of `mapped` relate to those of a file with these segments.
    ///
    /// `offsets_are_real` is false for a separate debug file, whose headers keep the addresses of the binary but not
    /// its offsets.
    pub(crate) fn new(mapped: MappedAt, segments: &[Segment], offsets_are_real: bool) -> Self {
        if mapped == MappedAt::default() {
            return Self::NONE;
        }
        let of_segment = |segment: &Segment| Self {
            bias: (segment.address.wrapping_sub(segment.offset))
                .wrapping_add(mapped.offset)
                .wrapping_sub(mapped.start),
        };
        if offsets_are_real {
            let holders = || segments.iter().filter(|segment| holds(segment, mapped));
            if let Some(segment) = holders().find(|segment| segment.executable).or_else(|| holders().next()) {
                return of_segment(segment);
            }
        }
        // The one executable segment begins where the mapping does.
        let mut executable = segments.iter().filter(|segment| segment.executable);
        match (executable.next(), executable.next()) {
            (Some(only), None) => Self { bias: (only.address & !(PAGE - 1)).wrapping_sub(mapped.start) },
            _ => Self { bias: mapped.offset.wrapping_sub(mapped.start) },
        }
    }

    pub(crate) fn apply(self, address: u64) -> u64 {
        address.wrapping_add(self.bias)
    }

    #[cfg(any(test, feature = "disasm"))]
    pub(crate) fn undo(self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }
}

/// Returns whether the mapping contains a part of the segment.
fn holds(segment: &Segment, mapped: MappedAt) -> bool {
    let first = segment.offset & !(PAGE - 1);
    let end = segment.offset.saturating_add(segment.file_size);
    let mapped_end = mapped.offset.saturating_add(mapped.limit.saturating_sub(mapped.start).max(1));
    segment.file_size > 0 && first < mapped_end && mapped.offset < end
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Segment =
        Segment { address: 0x2a40, memory_size: 0x1000, offset: 0x1a40, file_size: 0x1000, executable: true };
    const DATA: Segment =
        Segment { address: 0x5000, memory_size: 0x900, offset: 0x3000, file_size: 0x800, executable: false };

    #[test]
    fn code_whose_address_differs_from_its_offset() {
        let mapped = MappedAt { start: 0x7f00_0000_1000, limit: 0x7f00_0000_3000, offset: 0x1000 };
        let translation = Translation::new(mapped, &[DATA, TEXT], true);
        assert_eq!(translation.apply(0x7f00_0000_1a40), 0x2a40);
        assert_eq!(translation.undo(0x2a40), 0x7f00_0000_1a40);
    }

    #[test]
    fn a_debug_file_has_addresses_only() {
        let mapped = MappedAt { start: 0x7f00_0000_1000, limit: 0x7f00_0000_3000, offset: 0x1000 };
        let hollow = Segment { offset: 0x40, file_size: 0, ..TEXT };
        assert_eq!(Translation::new(mapped, &[hollow, DATA], false).apply(0x7f00_0000_1a40), 0x2a40);
    }

    #[test]
    fn no_mapping_means_the_files_own_addresses() {
        assert_eq!(Translation::new(MappedAt::default(), &[TEXT], true).apply(0x2a40), 0x2a40);
    }
}
