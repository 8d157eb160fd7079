//! The stubs through which a program calls functions of other files (the procedure linkage table). No symbol table has
//! them: the relocations that fill in their targets say which function each of them calls, and they get its name.

use std::ops::Range;

use object::{Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SymbolIndex};

use crate::elf::Elf;

/// A relocation with an addend: its place, its kind and symbol, the addend.
const RELOCATION: usize = 24;

pub(crate) struct Stubs<'d> {
    /// Where they are; the first of each range belongs to the first relocation.
    ranges: Vec<Range<u64>>,
    relocations: &'d [u8],
}

impl<'d> Stubs<'d> {
    /// The bytes of each.
    pub(crate) const SIZE: u64 = 16;

    pub(crate) fn of(file: &Elf<'d>) -> Self {
        // The lazy table begins with code that all its stubs share.
        let shared = if file.architecture() == Architecture::Aarch64 { 2 * Self::SIZE } else { Self::SIZE };
        let range = |(name, skipped): (&str, u64)| {
            let section = file.section_by_name(name)?;
            let start = section.address();
            Some(start.checked_add(skipped)?..start.checked_add(section.size())?)
        };
        let ranges = [(".plt", shared), (".plt.sec", 0)].into_iter().filter_map(range).collect();
        let relocations = file.section_by_name(".rela.plt").and_then(|section| section.data().ok());
        Self { ranges, relocations: relocations.unwrap_or_default() }
    }

    /// Returns the name of the function that the stub at `address` calls, and where the stub begins.
    pub(crate) fn find(&self, file: &Elf<'d>, address: u64) -> Option<(&'d [u8], u64)> {
        let start = self.ranges.iter().find(|range| range.contains(&address))?.start;
        let number = (address - start) / Self::SIZE;
        let relocation = self.relocations.chunks_exact(RELOCATION).nth(usize::try_from(number).ok()?)?;
        let symbol = u32::from_le_bytes(*relocation[12..].first_chunk()?);
        let symbol = file.dynamic_symbol_table()?.symbol_by_index(SymbolIndex(symbol as usize)).ok()?;
        let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
        Some((name, start + number * Self::SIZE))
    }
}
