//! Maps addresses to units.

use std::sync::Arc;

use gimli::{DebugAbbrevOffset, DebugInfoOffset, Reader, UnitOffset, UnitSectionOffset, UnitType};

use crate::Result;
use crate::dwarf::root::Roots;
use crate::dwarf::{Dwarf, Slice, Unit};
use crate::elf::patience::Patience;

/// The most units in which an address is looked up. Honest files need one, rarely two.
const UNITS_AN_ADDRESS: u8 = 16;

/// The longest gap that compilers and linkers leave between functions.
const PADDING: u64 = 63;

/// The position of a unit in a [`UnitIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UnitNumber(u32);

/// The units of a file and the addresses they cover. It borrows nothing, so it can be kept.
#[derive(Debug, Default)]
pub(crate) struct UnitIndex {
    /// Where each unit starts in `.debug_info`, ascending.
    starts: Vec<usize>,
    ranges: Vec<UnitRange>,
    /// Where abbreviation tables start, ascending. A table ends at or before the next one, which keeps the cost of
    /// parsing them all linear even in a file whose units claim overlapping tables.
    abbreviation_starts: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct UnitRange {
    begin: u64,
    end: u64,
    unit: UnitNumber,
}

impl UnitIndex {
    /// Reads the header of every unit, and the ranges of each: from `.debug_aranges` if it covers the unit, else from
    /// the unit's first entry, else from its line table.
    pub(crate) fn new(dwarf: &Dwarf<'_>, patience: &Patience) -> Result<Self> {
        let mut index = Self::default();
        let wants_ranges = index.read_headers(dwarf, patience);
        let covered = index.read_aranges(dwarf, patience)?;
        let mut roots = Roots::default();
        for (unit, wanted) in wants_ranges.into_iter().enumerate() {
            if wanted && !covered[unit] {
                // A damaged unit counts as missing.
                let _ = index.read_unit_ranges(dwarf, UnitNumber(unit as u32), &mut roots, patience);
                patience.spend(1 << 8)?;
            }
        }
        Ok(index)
    }

    /// Reads only where the units are, for files in which no addresses are looked up.
    pub(crate) fn headers_only(dwarf: &Dwarf<'_>, patience: &Patience) -> Self {
        let mut index = Self::default();
        index.read_headers(dwarf, patience);
        index
    }

    /// Fills in `starts` and `abbreviation_starts`, and returns which units can contain code.
    fn read_headers(&mut self, dwarf: &Dwarf<'_>, patience: &Patience) -> Vec<bool> {
        let mut wants_ranges = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(start) = header.debug_info_offset() else { continue };
            let has_code = !matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial
            );
            self.starts.push(start.0);
            self.abbreviation_starts.push(header.debug_abbrev_offset().0);
            wants_ranges.push(has_code);
            if patience.spend(1).is_err() {
                break;
            }
        }
        self.abbreviation_starts.sort_unstable();
        self.abbreviation_starts.dedup();
        wants_ranges
    }

    /// Reads `.debug_aranges` and returns which units it covers.
    fn read_aranges(&mut self, dwarf: &Dwarf<'_>, patience: &Patience) -> Result<Vec<bool>> {
        let mut covered = vec![false; self.starts.len()];
        let mut headers = dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = self.starts.binary_search(&header.debug_info_offset().0) else { continue };
            let mut entries = header.entries();
            loop {
                patience.spend(1)?;
                match entries.next_raw() {
                    Ok(Some(entry)) => {
                        let begin = entry.address();
                        let end = begin.saturating_add(entry.length());
                        self.add(gimli::Range { begin, end }, UnitNumber(unit as u32), patience)?;
                        // Even if the linker has dropped all the code of the unit, as with most units of std.
                        covered[unit] = true;
                    }
                    Ok(None) => break,
                    // The iterator ends by itself after an error that it cannot recover from.
                    Err(_) => {}
                }
            }
        }
        Ok(covered)
    }

    fn read_unit_ranges(
        &mut self,
        dwarf: &Dwarf<'_>,
        number: UnitNumber,
        roots: &mut Roots,
        patience: &Patience,
    ) -> Result<()> {
        let header = dwarf.unit_header(DebugInfoOffset(self.starts[number.0 as usize]))?;
        let table = self.abbreviation_table(dwarf, header.debug_abbrev_offset())?;
        let (root, abbreviation) = roots.read(&header, &table, patience)?;
        if root.records_ranges() && !root.has_code() {
            return Ok(());
        }
        let unit = Unit::new_with_abbreviations(dwarf, header, abbreviation)?;
        if !root.records_ranges()
            && let Some(program) = unit.line_program.clone()
        {
            return self.add_sequences(program, number, patience);
        }
        root.for_each_range(unit.unit_ref(dwarf), patience, |range| self.add(range, number, patience))
    }

    fn add_sequences(
        &mut self,
        program: gimli::IncompleteLineProgram<Slice<'_>>,
        unit: UnitNumber,
        patience: &Patience,
    ) -> Result<()> {
        let mut rows = program.rows();
        let mut begin = None;
        while let Some((_, row)) = rows.next_row()? {
            patience.spend(1)?;
            let first = *begin.get_or_insert(row.address());
            if row.end_sequence() {
                self.add(gimli::Range { begin: first, end: row.address() }, unit, patience)?;
                begin = None;
            }
        }
        Ok(())
    }

    /// Adds a range. Any number of units may share one list of ranges, so each counts as memory.
    fn add(&mut self, range: gimli::Range, unit: UnitNumber, patience: &Patience) -> Result<()> {
        let is_real = range.begin < range.end && !is_discarded(range.begin);
        match self.ranges.last_mut() {
            _ if !is_real => {}
            // Functions of a unit are mostly adjacent, with a little padding that belongs to no unit.
            Some(last)
                if last.unit == unit
                    && (last.end..=last.end.saturating_add(PADDING)).contains(&range.begin) =>
            {
                last.end = range.end;
            }
            _ => {
                patience.allocate(size_of::<UnitRange>() as u64)?;
                self.ranges.push(UnitRange { begin: range.begin, end: range.end, unit });
            }
        }
        Ok(())
    }

    /// Returns which of the sorted `addresses` (as positions) each unit may contain, units in file order.
    pub(crate) fn units_of(
        &self,
        addresses: &[u64],
        patience: &Patience,
    ) -> Result<Vec<(UnitNumber, Vec<u32>)>> {
        let mut counts = vec![0u8; addresses.len()];
        let mut pairs: Vec<(UnitNumber, u32)> = Vec::with_capacity(addresses.len());
        for range in &self.ranges {
            let first = addresses.partition_point(|&address| address < range.begin);
            let inside = addresses[first..].iter().take_while(|&&address| address < range.end).count();
            patience.spend(1 + inside)?;
            for (count, row) in counts[first..].iter_mut().zip(first..).take(inside) {
                if *count < UNITS_AN_ADDRESS {
                    *count += 1;
                    pairs.push((range.unit, row as u32));
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let by_unit = pairs.chunk_by(|a, b| a.0 == b.0);
        Ok(by_unit.map(|chunk| (chunk[0].0, chunk.iter().map(|&(_, row)| row).collect())).collect())
    }

    /// Every unit, in file order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = UnitNumber> + use<> {
        (0..self.starts.len() as u32).map(UnitNumber)
    }

    pub(crate) fn unit<'d>(&self, dwarf: &Dwarf<'d>, number: UnitNumber) -> gimli::Result<Unit<'d>> {
        let start = DebugInfoOffset(self.starts[number.0 as usize]);
        let header = dwarf.unit_header(start)?;
        let table = self.abbreviation_table(dwarf, header.debug_abbrev_offset())?;
        let abbreviations = gimli::DebugAbbrev::from(table).abbreviations(DebugAbbrevOffset(0))?;
        Unit::new_with_abbreviations(dwarf, header, Arc::new(abbreviations))
    }

    /// Returns the abbreviations from here up to the start of the next table.
    fn abbreviation_table<'d>(
        &self,
        dwarf: &Dwarf<'d>,
        offset: DebugAbbrevOffset<usize>,
    ) -> gimli::Result<Slice<'d>> {
        let section = gimli::Section::reader(&dwarf.debug_abbrev);
        let next = self.abbreviation_starts.partition_point(|&start| start <= offset.0);
        let end = self.abbreviation_starts.get(next).copied().unwrap_or(section.len()).min(section.len());
        section.range(offset.0.min(end)..end)
    }

    /// Returns the unit that contains the entry at `offset` of `.debug_info`.
    pub(crate) fn unit_at(&self, offset: DebugInfoOffset<usize>) -> Option<UnitNumber> {
        // A unit starts with its header, so no entry has the unit's own offset.
        let after = self.starts.partition_point(|&start| start < offset.0);
        after.checked_sub(1).map(|unit| UnitNumber(unit as u32))
    }

    /// Returns the memory that the index takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.starts.len() + self.abbreviation_starts.len()) * size_of::<usize>()
            + self.ranges.len() * size_of::<UnitRange>()
    }
}

/// Returns whether code was dropped: linkers keep the debug information of dropped functions at one of these
/// addresses.
pub(super) fn is_discarded(begin: u64) -> bool {
    begin <= 1 || begin >= u64::MAX - 1
}

/// Returns the position of a unit's entry in `.debug_info`.
pub(super) fn section_offset(unit: &Unit<'_>, offset: UnitOffset<usize>) -> usize {
    let UnitSectionOffset(start) = unit.header.offset();
    start + offset.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn ranges_take_no_more_memory_than_allowed() {
        let limits = Limits { memory: 10 * size_of::<UnitRange>() as u64, ..Limits::SERVICE };
        let (mut index, patience) = (UnitIndex::default(), Patience::new(limits));
        let mut add = |number: u64| {
            let begin = 0x1000 * (number + 1);
            index.add(gimli::Range { begin, end: begin + 1 }, UnitNumber(0), &patience).is_ok()
        };
        assert_eq!((0..1000).filter(|&number| add(number)).count(), 10);
        assert_eq!(index.ranges.len(), 10);
    }
}
