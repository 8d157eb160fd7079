//! Finds the functions and inlined calls of one unit that contain the addresses.

use gimli::UnitRef;

use crate::dwarf::attributes::Attributes;
use crate::dwarf::lines::{FileNames, SourcePlace, find_places};
use crate::dwarf::origin::{Described, Origins};
use crate::dwarf::split::{self, Package};
use crate::dwarf::units::{UnitIndex, UnitNumber, is_discarded};
use crate::dwarf::{DEEPEST_INLINING, Dwarf, DwarfFrame, Lookup, Slice, Unit};
use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::frame::Frame;
use crate::names::NameTable;
use crate::{Error, ErrorKind, Result};

/// Looks up a batch of addresses in one unit.
pub(super) struct UnitVisit<'l, 'd> {
    lookup: &'l Lookup<'l, 'd>,
    /// Positions of the addresses in the whole batch.
    rows: Vec<u32>,
    search: AddressSearch<'l>,
    frames: Vec<Vec<DwarfFrame>>,
}

impl<'l, 'd> UnitVisit<'l, 'd> {
    pub(super) fn new(lookup: &'l Lookup<'l, 'd>, addresses: &[u64], rows: &[u32]) -> Self {
        let addresses: Vec<u64> = rows.iter().map(|&row| addresses[row as usize]).collect();
        Self {
            lookup,
            rows: rows.to_vec(),
            frames: vec![Vec::new(); addresses.len()],
            search: AddressSearch::new(addresses, lookup.patience),
        }
    }

    /// Walks the unit. An error ends the walk early; what was found before it is kept.
    pub(super) fn run(
        &mut self,
        number: UnitNumber,
        package: Option<&Package<'_>>,
        origins: &mut Origins<'_, 'd>,
        names: &mut NameTable,
    ) -> Result<()> {
        let dwarf = self.lookup.dwarf;
        let unit = self.lookup.index.unit(dwarf, number)?;
        let mut outcome = match split::request(dwarf, &unit) {
            None => self.search.walk(unit.unit_ref(dwarf), origins, names),
            Some(request) => self.walk_split(&unit, &request, package, names),
        };
        let mut places = vec![None; self.rows.len()];
        if let Some(program) = unit.line_program.clone() {
            let lines = find_places(program, &self.search.addresses, &mut places, self.lookup.patience);
            outcome = outcome.and(lines);
        }
        let mut files = FileNames::new(unit.unit_ref(dwarf), self.lookup.patience);
        for ((found, place), frames) in self.search.found.iter().zip(places).zip(&mut self.frames) {
            *frames = found.frames(place, &mut files, names);
        }
        outcome
    }

    /// Returns the frames found, each with the position of its address in the batch.
    pub(super) fn into_frames(self) -> impl Iterator<Item = (u32, Vec<DwarfFrame>)> {
        self.rows.into_iter().zip(self.frames)
    }

    fn walk_split(
        &mut self,
        skeleton: &Unit<'_>,
        request: &split::SplitRequest,
        package: Option<&Package<'_>>,
        names: &mut NameTable,
    ) -> Result<()> {
        let (dwarf, patience) = (self.lookup.dwarf, self.lookup.patience);
        if let (Some(package), Some(id)) = (package, skeleton.dwo_id)
            && let Some(dwo) = package.find(id, dwarf)?
        {
            return self.search.walk_dwo(&dwo, skeleton, names);
        }
        let missing =
            || Error::new(ErrorKind::NotFound, format!("the split debug file {} is missing", request.name));
        let bytes = self.lookup.split.object(request).ok_or_else(missing)?;
        let image = Image::new(bytes, patience.memory_limit());
        let (sections, endian) = split::load_object(&image, patience)?;
        let mut dwo: Dwarf<'_> = sections.borrow(|section| section.reader(endian));
        dwo.make_dwo(dwarf);
        self.search.walk_dwo(&dwo, skeleton, names)
    }
}

/// A function, or a call inlined into one, that contains at least one of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScopeId(u32);

struct Scope {
    id: ScopeId,
    depth: isize,
}

/// What is known about one address.
#[derive(Default)]
struct AddressFacts {
    function: Option<Described>,
    /// Outermost first.
    calls: Vec<InlinedCall>,
    /// The innermost scope so far.
    scope: Option<ScopeId>,
}

/// An inlined call: what was called, and from where.
struct InlinedCall {
    function: Described,
    from: Option<SourcePlace>,
}

/// What a call takes until its address is answered: a few bytes of a file may be a call at every address.
const CALL_SIZE: usize = size_of::<InlinedCall>() + size_of::<DwarfFrame>() + size_of::<Frame>();

struct AddressSearch<'l> {
    addresses: Vec<u64>,
    found: Vec<AddressFacts>,
    patience: &'l Patience,
    /// The scopes around the current entry, outermost first.
    scopes: Vec<Scope>,
    scope_count: u32,
    without_function: usize,
    /// The addresses in the current scope; reused to save allocations.
    inside: Vec<usize>,
    /// For each address, the last entry (counted from 1) that contains it.
    seen: Vec<u64>,
    entry_count: u64,
}

impl<'l> AddressSearch<'l> {
    fn new(addresses: Vec<u64>, patience: &'l Patience) -> Self {
        let found = addresses.iter().map(|_| AddressFacts::default()).collect();
        Self {
            seen: vec![0; addresses.len()],
            entry_count: 0,
            without_function: addresses.len(),
            addresses,
            found,
            patience,
            scopes: Vec::new(),
            scope_count: 0,
            inside: Vec::new(),
        }
    }

    fn walk_dwo<'x>(&mut self, dwo: &Dwarf<'x>, skeleton: &Unit<'x>, names: &mut NameTable) -> Result<()> {
        let index = UnitIndex::headers_only(dwo, self.patience);
        let unit = split::find_unit(dwo, &index, skeleton)?;
        self.walk(unit.unit_ref(dwo), &mut Origins::new(dwo, &index, self.patience), names)
    }

    /// Reads the entries of `unit` until every address has its function and inlined calls.
    fn walk<'d>(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        origins: &mut Origins<'_, 'd>,
        names: &mut NameTable,
    ) -> Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // If an entry contains no address, neither do the inlined calls below it.
        let mut barren_depth = isize::MAX;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let specifications = abbreviation.attributes();
            self.patience.spend(1 + specifications.len())?;
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            if self.scopes.is_empty() && self.without_function == 0 {
                break;
            }
            if depth <= barren_depth {
                barren_depth = isize::MAX;
            }
            match abbreviation.tag() {
                gimli::DW_TAG_subprogram => {
                    let attributes = Attributes::read(&mut entries, specifications)?;
                    if attributes.has_code() {
                        self.enter_function(unit, &attributes, depth, origins, names)?;
                    }
                }
                gimli::DW_TAG_inlined_subroutine if !self.scopes.is_empty() && barren_depth == isize::MAX => {
                    let attributes = Attributes::read(&mut entries, specifications)?;
                    if !self.enter_call(unit, &attributes, depth, origins, names)? {
                        barren_depth = depth;
                    }
                }
                _ => entries.skip_attributes(specifications)?,
            }
        }
        Ok(())
    }

    fn enter_function<'d>(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        attributes: &Attributes<'d>,
        depth: isize,
        origins: &mut Origins<'_, 'd>,
        names: &mut NameTable,
    ) -> Result<()> {
        self.find_inside(unit, attributes)?;
        self.inside.retain(|&row| self.found[row].function.is_none());
        if self.inside.is_empty() {
            return Ok(());
        }
        let function = origins.describe(unit, attributes, names)?;
        let scope = self.open_scope(depth);
        for &row in &self.inside {
            self.found[row].function = Some(function.clone());
            self.found[row].scope = Some(scope);
        }
        self.without_function -= self.inside.len();
        Ok(())
    }

    /// Returns whether the call contains any address.
    fn enter_call<'d>(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        attributes: &Attributes<'d>,
        depth: isize,
        origins: &mut Origins<'_, 'd>,
        names: &mut NameTable,
    ) -> Result<bool> {
        let around = self.scopes.last().map(|scope| scope.id);
        self.find_inside(unit, attributes)?;
        // An address can be in only one of several sibling calls.
        self.inside.retain(|&row| {
            let found = &self.found[row];
            found.scope == around && found.calls.len() < DEEPEST_INLINING
        });
        if self.inside.is_empty() {
            return Ok(false);
        }
        self.patience.allocate((self.inside.len() * CALL_SIZE) as u64)?;
        let function = origins.describe(unit, attributes, names)?;
        let from = attributes.call_file.map(|file| SourcePlace {
            file,
            line: attributes.call_line,
            column: attributes.call_column,
        });
        let scope = self.open_scope(depth);
        for &row in &self.inside {
            let found = &mut self.found[row];
            found.calls.push(InlinedCall { function: function.clone(), from });
            found.scope = Some(scope);
        }
        Ok(true)
    }

    fn open_scope(&mut self, depth: isize) -> ScopeId {
        let id = ScopeId(self.scope_count);
        self.scope_count += 1;
        self.scopes.push(Scope { id, depth });
        id
    }

    /// Fills `inside` with the addresses in the ranges of the entry.
    fn find_inside<'d>(&mut self, unit: UnitRef<'_, Slice<'d>>, attributes: &Attributes<'d>) -> Result<()> {
        self.inside.clear();
        self.entry_count += 1;
        let (addresses, inside, seen) = (&self.addresses, &mut self.inside, &mut self.seen);
        let (entry, patience) = (self.entry_count, self.patience);
        attributes.for_each_range(unit, patience, |range| {
            if is_discarded(range.begin) {
                return Ok(());
            }
            let first = addresses.partition_point(|&address| address < range.begin);
            let rows = (first..addresses.len()).take_while(|&row| addresses[row] < range.end);
            for row in rows {
                patience.spend(1)?;
                // Ranges may overlap.
                if std::mem::replace(&mut seen[row], entry) != entry {
                    inside.push(row);
                }
            }
            Ok(())
        })
    }
}

impl AddressFacts {
    fn frames(
        &self,
        place: Option<SourcePlace>,
        files: &mut FileNames<'_, '_>,
        names: &mut NameTable,
    ) -> Vec<DwarfFrame> {
        let functions =
            self.calls.iter().rev().map(|call| Some(&call.function)).chain([self.function.as_ref()]);
        let mut froms = self.calls.iter().rev().map(|call| call.from);
        let mut place = place;
        let mut frames = Vec::with_capacity(self.calls.len() + 1);
        for function in functions {
            if function.is_none() && place.is_none() {
                break;
            }
            let function = function.cloned().unwrap_or_default();
            let at = place.unwrap_or(SourcePlace { file: 0, line: 0, column: 0 });
            frames.push(DwarfFrame {
                names: function.names,
                has_short_name: function.has_short_name,
                file: if place.is_some() { files.path(at.file, names) } else { names.empty() },
                start_line: function.start_line,
                line: at.line,
                column: at.column,
            });
            place = froms.next().flatten();
        }
        frames
    }
}
