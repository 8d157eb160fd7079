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
        // The one executable segment begins where the mapping does, or the mapping is of the whole file, as a store keeps it.
        let mut executable = segments.iter().filter(|segment| segment.executable);
        match (executable.next(), executable.next()) {
            (Some(only), None) if !offsets_are_real && mapped.offset == 0 => {
                of_segment(&Segment { offset: offset_in_binary(segments, only), ..*only })
            }
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

/// Returns where a segment begins in the binary that a debug file was made of: linkers write segments one after the other, each at
/// the next offset that is as far into a page as its address.
fn offset_in_binary(segments: &[Segment], wanted: &Segment) -> u64 {
    let mut end = 0u64;
    for segment in segments.iter().take_while(|segment| *segment != wanted) {
        end = next_place(end, segment).saturating_add(segment.memory_size);
    }
    next_place(end, wanted)
}

fn next_place(end: u64, segment: &Segment) -> u64 {
    end.saturating_add(segment.address.wrapping_sub(end) & (PAGE - 1))
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

    /// As GNU's linker and lld lay them out.
    #[test]
    fn a_debug_file_has_offsets_too_if_the_whole_file_is_mapped() {
        let mapped = MappedAt { start: 0x9000_0000, limit: 0x9100_0000, offset: 0 };
        let hollow = |address, memory_size, executable| Segment {
            address,
            memory_size,
            offset: 0,
            file_size: 0,
            executable,
        };
        for (first, text, offset) in [
            (hollow(0x40_0000, 0x618, false), hollow(0x40_1000, 0x195, true), 0x1000),
            (hollow(0, 0x1a3c, false), hollow(0x2a40, 0x1000, true), 0x1a40),
            (hollow(0, 0x2a00, false), hollow(0x3a00, 0x1000, true), 0x2a00),
        ] {
            let translation = Translation::new(mapped, &[first, text, DATA], false);
            assert_eq!(translation.apply(mapped.start + offset + 7), text.address + 7);
        }
        let one = hollow(0x40_0000, 0x2000, true);
        assert_eq!(Translation::new(mapped, &[one, DATA], false).apply(mapped.start + 0x1234), 0x40_1234);
    }

    #[test]
    fn no_mapping_means_the_files_own_addresses() {
        assert_eq!(Translation::new(MappedAt::default(), &[TEXT], true).apply(0x2a40), 0x2a40);
    }
}
