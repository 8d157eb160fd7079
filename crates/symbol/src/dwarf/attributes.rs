//! The attributes of an entry that lookups need.

use gimli::{AttributeSpecification, AttributeValue, EntriesRaw, Range, UnitRef};

use crate::Result;
use crate::dwarf::Slice;
use crate::elf::patience::Patience;

type Value<'d> = AttributeValue<Slice<'d>>;

/// The attributes of one entry. Strings and references are resolved only when they are needed.
pub(super) struct Attributes<'d> {
    low_pc: Option<Value<'d>>,
    high_pc: Option<Value<'d>>,
    ranges: Option<Value<'d>>,
    pub(super) name: Option<Value<'d>>,
    pub(super) linkage_name: Option<Value<'d>>,
    /// `DW_AT_abstract_origin` or `DW_AT_specification`: the entry with the rest of the attributes.
    pub(super) origin: Option<Value<'d>>,
    pub(super) decl_line: u32,
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
    is_rust: bool,
}

impl<'d> Attributes<'d> {
    /// Reads the attributes of the entry whose abbreviation was just read.
    pub(super) fn read(
        entries: &mut EntriesRaw<'_, Slice<'d>>,
        specifications: &[AttributeSpecification],
    ) -> gimli::Result<Self> {
        let mut attributes = Self {
            low_pc: None,
            high_pc: None,
            ranges: None,
            name: None,
            linkage_name: None,
            origin: None,
            decl_line: 0,
            call_file: None,
            call_line: 0,
            call_column: 0,
            is_rust: false,
        };
        for &specification in specifications {
            let attribute = entries.read_attribute(specification)?;
            match attribute.name() {
                gimli::DW_AT_low_pc => attributes.low_pc = Some(attribute.value()),
                gimli::DW_AT_high_pc => attributes.high_pc = Some(attribute.value()),
                gimli::DW_AT_ranges => attributes.ranges = Some(attribute.value()),
                gimli::DW_AT_name => attributes.name = Some(attribute.value()),
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    attributes.linkage_name = Some(attribute.value());
                }
                gimli::DW_AT_abstract_origin => attributes.origin = Some(attribute.value()),
                gimli::DW_AT_specification => {
                    attributes.origin.get_or_insert(attribute.value());
                }
                gimli::DW_AT_decl_line => attributes.decl_line = number(&attribute),
                gimli::DW_AT_call_line => attributes.call_line = number(&attribute),
                gimli::DW_AT_call_column => attributes.call_column = number(&attribute),
                gimli::DW_AT_language => {
                    attributes.is_rust =
                        matches!(attribute.value(), AttributeValue::Language(gimli::DW_LANG_Rust));
                }
                gimli::DW_AT_call_file => {
                    attributes.call_file = match attribute.value() {
                        AttributeValue::FileIndex(index) => Some(index),
                        other => other.udata_value(),
                    };
                }
                _ => {}
            }
        }
        Ok(attributes)
    }

    /// Returns whether the entry has code of its own; otherwise it is a declaration or an abstract instance.
    pub(super) fn has_code(&self) -> bool {
        self.low_pc.is_some() || self.ranges.is_some()
    }

    /// Returns whether this unit records its ranges, even if it has no code or the linker has dropped all of it.
    /// rustc always does; the units that it leaves from inlining across crates have no code.
    pub(super) fn records_ranges(&self) -> bool {
        self.is_rust || self.ranges.is_some() || (self.low_pc.is_some() && self.high_pc.is_some())
    }

    /// Calls `found` with each address range of the entry.
    pub(super) fn for_each_range(
        &self,
        unit: UnitRef<'_, Slice<'d>>,
        patience: &Patience,
        mut found: impl FnMut(Range) -> Result<()>,
    ) -> Result<()> {
        if let Some(ranges) = self.ranges.clone() {
            let Some(mut list) = unit.attr_ranges(ranges)? else { return Ok(()) };
            while let Some(range) = list.next()? {
                patience.spend(1)?;
                found(range)?;
            }
            return Ok(());
        }
        let Some(begin) = self.low_pc.clone().map(|value| unit.attr_address(value)).transpose()?.flatten()
        else {
            return Ok(());
        };
        let end = match self.high_pc.clone() {
            Some(AttributeValue::Udata(size)) => Some(begin.saturating_add(size)),
            Some(value) => unit.attr_address(value)?,
            None => None,
        };
        if let Some(end) = end {
            found(Range { begin, end })?;
        }
        Ok(())
    }
}

fn number(attribute: &gimli::Attribute<Slice<'_>>) -> u32 {
    attribute.udata_value().and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}
