//! The first entry of a unit, which contains the ranges of the unit's code. Finding the unit of an address requires
//! all first entries: parsing every abbreviation and line table header of every unit for them would take most of the
//! time.

use std::sync::Arc;

use gimli::{Abbreviations, DebugAbbrev, DebugAbbrevOffset, Reader, UnitHeader, UnitOffset};

use crate::Result;
use crate::dwarf::Slice;
use crate::dwarf::attributes::Attributes;
use crate::elf::patience::Patience;

/// Reads the first entries of units, one after the other.
#[derive(Default)]
pub(super) struct Roots {
    /// The previous unit's abbreviation. Units of one object file share a table, and most of their first entries look
    /// the same.
    last: Option<Abbreviation>,
}

struct Abbreviation {
    table: DebugAbbrevOffset<usize>,
    code: u64,
    alone: Arc<Abbreviations>,
}

impl Roots {
    /// Returns the first entry of `unit`, and the one abbreviation that it uses; `table` contains all abbreviations
    /// of the unit.
    pub(super) fn read<'d>(
        &mut self,
        unit: &UnitHeader<Slice<'d>>,
        table: &Slice<'d>,
        patience: &Patience,
    ) -> Result<(Attributes<'d>, Arc<Abbreviations>)> {
        let code = unit.range_from(UnitOffset(unit.size_of_header())..)?.read_uleb128()?;
        let offset = unit.debug_abbrev_offset();
        let abbreviations = match &self.last {
            Some(last) if (last.table, last.code) == (offset, code) => last.alone.clone(),
            _ => {
                let alone = Arc::new(find(code, table, patience)?);
                self.last = Some(Abbreviation { table: offset, code, alone: alone.clone() });
                alone
            }
        };
        let mut entries = unit.entries_raw(&abbreviations, None)?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::InvalidAbbreviationCode(code))?;
        let root = Attributes::read(&mut entries, abbreviation.attributes())?;
        Ok((root, abbreviations))
    }
}

/// Returns the abbreviation with the code `wanted`, alone.
fn find(wanted: u64, table: &Slice<'_>, patience: &Patience) -> Result<Abbreviations> {
    let mut rest = table.clone();
    loop {
        let start = table.len() - rest.len();
        let code = rest.read_uleb128()?;
        if code == 0 {
            return Err(gimli::Error::InvalidAbbreviationCode(wanted).into());
        }
        skip(&mut rest)?;
        patience.spend(1)?;
        if code == wanted {
            let mut alone = table.range(start..table.len() - rest.len())?.to_slice()?.into_owned();
            // A table ends with the code 0.
            alone.push(0);
            return Ok(DebugAbbrev::new(&alone, table.endian()).abbreviations(DebugAbbrevOffset(0))?);
        }
    }
}

/// Skips what follows an abbreviation's code: tag, children, and the attributes with their forms.
fn skip(table: &mut impl Reader) -> gimli::Result<()> {
    table.read_uleb128()?;
    table.read_u8()?;
    loop {
        let (attribute, form) = (table.read_uleb128()?, table.read_uleb128()?);
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            table.read_sleb128()?;
        }
        if (attribute, form) == (0, 0) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use gimli::{EndianSlice, RunTimeEndian};

    use super::skip;

    #[test]
    fn constants_within_an_abbreviation_are_skipped() {
        // DW_TAG_compile_unit without children, DW_AT_language as an implicit constant, DW_AT_name as a string.
        let bytes = [0x11, 0, 0x13, 0x21, 0x9c, 0x80, 0x7f, 0x03, 0x08, 0, 0, 0x2a];
        let mut table = EndianSlice::new(&bytes, RunTimeEndian::Little);
        skip(&mut table).unwrap();
        assert_eq!(table.slice(), [0x2a]);
    }

    #[test]
    fn an_abbreviation_cut_off_is_an_error() {
        let mut table = EndianSlice::new(&[0x11, 0, 0x13, 0x21], RunTimeEndian::Little);
        assert!(skip(&mut table).is_err());
    }
}
