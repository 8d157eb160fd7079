//! Finds the name of a function: in its own entry, or in the entries that it refers to.

use gimli::{AttributeValue, DebugInfoOffset, Reader, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use crate::Result;
use crate::dwarf::attributes::Attributes;
use crate::dwarf::units::{UnitIndex, UnitNumber, section_offset};
use crate::dwarf::{Dwarf, Slice, Unit};
use crate::elf::patience::Patience;
use crate::names::{FunctionNames, NameTable};

/// An inlined function refers to its abstract instance, which refers to its declaration. Longer chains are cycles or
/// worse.
const LONGEST_WALK: usize = 8;

/// The steps that reading a name counts as: it may be long, and far from the entry.
const NAME_COST: usize = 1 << 12;

/// The most units that are kept open because others refer to them.
const MOST_OPEN: usize = 64;

/// A function as the debug information describes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Described {
    pub(super) names: Option<FunctionNames>,
    pub(super) has_short_name: bool,
    pub(super) start_line: u32,
}

/// Which `.debug_info` section an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// The file's own section.
    Main,
    /// The file that dwz split off.
    Supplement,
}

/// Follows references between entries, and remembers where they led.
pub(super) struct Origins<'o, 'd> {
    dwarf: &'o Dwarf<'d>,
    index: &'o UnitIndex,
    patience: &'o Patience,
    supplement_index: Option<UnitIndex>,
    /// Units that were opened only because another unit refers to them.
    units: FxHashMap<(Space, UnitNumber), Option<Unit<'d>>>,
    described: FxHashMap<(Space, usize), Described>,
}

/// Collects the attributes of the entries on the way. The first value wins.
#[derive(Default)]
struct Collected<'d> {
    linkage_name: Option<Slice<'d>>,
    name: Option<Slice<'d>>,
    line: u32,
}

impl<'d> Collected<'d> {
    fn add(&mut self, attributes: &Attributes<'d>, unit: UnitRef<'_, Slice<'d>>) {
        let string = |value: &Option<AttributeValue<Slice<'d>>>| unit.attr_string(value.clone()?).ok();
        if self.linkage_name.is_none() {
            self.linkage_name = string(&attributes.linkage_name);
        }
        // Names are long and scattered over the file; the short one is read only if it is needed.
        if self.linkage_name.is_none() && self.name.is_none() {
            self.name = string(&attributes.name);
        }
        if self.line == 0 {
            self.line = attributes.decl_line;
        }
    }

    /// Adds `attributes` and those of the entries that they refer to, as long as the references stay in `unit`.
    /// Returns the reference that leaves it.
    fn walk(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        attributes: &Attributes<'d>,
    ) -> Option<AttributeValue<Slice<'d>>> {
        self.add(attributes, unit);
        let mut origin = attributes.origin.clone();
        for _ in 0..LONGEST_WALK {
            match origin {
                Some(AttributeValue::UnitRef(offset)) if !self.is_complete() => {
                    let next = read_entry(unit, offset)?;
                    self.add(&next, unit);
                    origin = next.origin;
                }
                other => return other.filter(|_| !self.is_complete()),
            }
        }
        None
    }

    fn is_complete(&self) -> bool {
        self.linkage_name.is_some() && self.line != 0
    }

    fn finish(self, names: &mut NameTable) -> Described {
        let has_short_name = self.linkage_name.is_none();
        let symbol = self.linkage_name.or(self.name).filter(|symbol| !symbol.is_empty());
        Described {
            names: symbol.and_then(|symbol| Some(names.function(&symbol.to_slice().ok()?))),
            has_short_name,
            start_line: self.line,
        }
    }
}

impl<'o, 'd> Origins<'o, 'd> {
    pub(super) fn new(dwarf: &'o Dwarf<'d>, index: &'o UnitIndex, patience: &'o Patience) -> Self {
        Self {
            dwarf,
            index,
            patience,
            supplement_index: None,
            units: FxHashMap::default(),
            described: FxHashMap::default(),
        }
    }

    /// Describes the function of `unit` whose entry has these attributes.
    pub(super) fn describe(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        attributes: &Attributes<'d>,
        names: &mut NameTable,
    ) -> Result<Described> {
        let says_nothing_itself = attributes.linkage_name.is_none() && attributes.name.is_none();
        let key = match &attributes.origin {
            Some(AttributeValue::UnitRef(offset)) => Some((Space::Main, section_offset(unit.unit, *offset))),
            Some(AttributeValue::DebugInfoRef(offset)) => Some((Space::Main, offset.0)),
            Some(AttributeValue::DebugInfoRefSup(offset)) => Some((Space::Supplement, offset.0)),
            _ => None,
        };
        let key = key.filter(|_| says_nothing_itself);
        if let Some(known) = key.and_then(|key| self.described.get(&key)) {
            return Ok(known.clone());
        }
        self.patience.spend(NAME_COST)?;
        let described = self.collect(unit, attributes).finish(names);
        if let Some(key) = key {
            self.described.insert(key, described.clone());
        }
        Ok(described)
    }

    fn collect(&mut self, unit: UnitRef<'_, Slice<'d>>, attributes: &Attributes<'d>) -> Collected<'d> {
        let mut collected = Collected::default();
        let mut space = Space::Main;
        let mut outside = collected.walk(unit, attributes);
        for _ in 0..LONGEST_WALK {
            let offset = match outside {
                Some(AttributeValue::DebugInfoRef(offset)) => offset,
                Some(AttributeValue::DebugInfoRefSup(offset)) => {
                    space = Space::Supplement;
                    offset
                }
                _ => break,
            };
            let Some((there, offset)) = self.open(space, offset) else { break };
            let Some(next) = read_entry(there, offset) else { break };
            outside = collected.walk(there, &next);
        }
        collected
    }

    /// Opens the unit that contains the entry at `offset`, and returns the entry's offset in it.
    fn open(
        &mut self,
        space: Space,
        offset: DebugInfoOffset<usize>,
    ) -> Option<(UnitRef<'_, Slice<'d>>, UnitOffset<usize>)> {
        let (dwarf, index) = match space {
            Space::Main => (self.dwarf, self.index),
            Space::Supplement => {
                let (dwarf, patience) = (self.dwarf.sup()?, self.patience);
                (
                    dwarf,
                    &*self.supplement_index.get_or_insert_with(|| UnitIndex::headers_only(dwarf, patience)),
                )
            }
        };
        let number = index.unit_at(offset)?;
        // Each unit keeps blocks of its sections.
        if self.units.len() >= MOST_OPEN {
            self.units.clear();
        }
        let unit = self.units.entry((space, number)).or_insert_with(|| index.unit(dwarf, number).ok());
        let unit = unit.as_ref()?;
        Some((UnitRef::new(dwarf, unit), offset.to_unit_offset(&unit.header)?))
    }
}

fn read_entry<'d>(unit: UnitRef<'_, Slice<'d>>, offset: UnitOffset<usize>) -> Option<Attributes<'d>> {
    let mut entries = unit.entries_raw(Some(offset)).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    Attributes::read(&mut entries, abbreviation.attributes()).ok()
}
