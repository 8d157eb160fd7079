//! Frames by name and owner: what a flame graph draws as one box.

use std::hash::BuildHasher;

use flamelet_profile::{FunctionId, Line, Location, LocationId, MappingId, Profile, StringId};
use flamelet_symbol::owner::{Owner, Owners};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::table::FrameTable;
use crate::names::{crate_of, crate_of_file};

/// A row of [`Frames`]: the name of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub(crate) u32);

impl NameId {
    /// Returns the row in the table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An owner of code: a row of the owners of [`Frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(u16);

impl OwnerId {
    /// The owner that every table has, for frames about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// Returns the row in the table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn from_index(index: usize) -> Self {
        Self(index as u16)
    }
}

/// A name together with the owner of the code: inlined functions of different crates often have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnedName {
    pub(crate) name: NameId,
    pub(crate) owner: OwnerId,
}

#[derive(Clone, Debug)]
enum Text {
    Interned(StringId),
    Made(Box<str>),
}

#[derive(Clone, Debug)]
struct FrameName {
    text: Text,
    function: Option<FunctionId>,
    /// The owner of the first frame of this name.
    owner: OwnerId,
}

/// The frames of every location of a profile as names, including inlined frames. Two functions with the same name
/// count as one, as in pprof's `functions` granularity; a location without symbols gets the name of its mapping in
/// brackets.
#[derive(Clone, Debug)]
pub struct Frames {
    names: Vec<FrameName>,
    /// Innermost first, as in [`Profile::lines`].
    pub(crate) table: FrameTable,
    /// The rows of `owned` of the frames, in the order of the entries of `table`.
    rows: Vec<u32>,
    owned: Vec<OwnedName>,
    owners: Vec<Owner>,
    /// The row of `owned` of each location that has one frame, as most do, else [`MANY`]: one lookup instead of three.
    only: Vec<u32>,
}

/// See [`Frames::only`].
const MANY: u32 = u32::MAX;
const MOST_OWNERS: usize = 10_000;

impl Frames {
    /// Returns about how many bytes it takes.
    pub fn byte_size(&self) -> usize {
        let Self { names, table, rows, owned, only, owners: _ } = self;
        let own = size_of_val(&**names) + size_of_val(&**rows) + size_of_val(&**owned) + size_of_val(&**only);
        own + table.byte_size()
    }

    /// Reads the names of all locations of `profile`, and finds out whose code they are.
    pub fn new(profile: &Profile) -> Self {
        Self::with_owners(profile, &Owners::of(profile, |_, _| false))
    }

    /// Reads the names of all locations of `profile`, whose owners are known.
    pub fn with_owners(profile: &Profile, owners: &Owners) -> Self {
        let mut made = FramesBuilder::new(profile, owners);
        let mut table = FrameTable::with_capacity(profile.locations().len());
        for location in profile.locations() {
            made.push_frames(location, &mut table);
        }
        let FramesBuilder { names, rows, owned, owner_table, .. } = made;
        let only =
            (0..profile.locations().len()).map(|at| match &rows[table.range(LocationId::from_index(at))] {
                &[row] => row,
                _ => MANY,
            });
        let only = only.collect();
        Self { names, table, rows, owned, owners: owner_table, only }
    }

    /// Returns how many different names there are.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Returns every name.
    pub fn name_ids(&self) -> impl ExactSizeIterator<Item = NameId> + use<> {
        (0..self.names.len() as u32).map(NameId)
    }

    /// Returns the text of a name; `profile` must be the one given to [`Frames::new`].
    pub fn text<'a>(&'a self, profile: &'a Profile, name: NameId) -> &'a str {
        match &self.names[name.index()].text {
            Text::Interned(id) => profile.string(*id),
            Text::Made(text) => text,
        }
    }

    /// Returns one function of this name, if symbols are known.
    pub fn function(&self, name: NameId) -> Option<FunctionId> {
        self.names[name.index()].function
    }

    /// Returns whose code the functions of this name are; of the first one, if they have different owners.
    pub fn owner(&self, name: NameId) -> &Owner {
        self.owner_at(self.owner_id(name))
    }

    pub(crate) fn owner_id(&self, name: NameId) -> OwnerId {
        self.names[name.index()].owner
    }

    /// Returns an owner by its row.
    pub fn owner_at(&self, owner: OwnerId) -> &Owner {
        &self.owners[owner.index()]
    }

    pub(crate) fn owner_count(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn owned(&self, row: u32) -> OwnedName {
        self.owned[row as usize]
    }

    pub(crate) fn owned_names(&self) -> &[OwnedName] {
        &self.owned
    }

    /// Returns the crate of a name: from the name itself, or else from its source file; empty if unknown.
    pub fn krate(&self, profile: &Profile, name: NameId) -> String {
        match crate_of(self.text(profile, name)) {
            "" => crate_of_file(self.file(profile, name)),
            krate => krate.to_owned(),
        }
    }

    /// Returns the source file of a name; empty if unknown.
    pub(crate) fn file<'a>(&self, profile: &'a Profile, name: NameId) -> &'a str {
        self.function(name).map_or("", |function| profile.string(profile.function(function).filename))
    }

    /// Returns the name whose text is `text`.
    pub fn find(&self, profile: &Profile, text: &str) -> Option<NameId> {
        self.name_ids().find(|&name| self.text(profile, name) == text)
    }

    /// Returns the frames at a location, innermost first. There is always at least one.
    pub fn of(&self, location: LocationId) -> impl DoubleEndedIterator<Item = NameId> + '_ {
        self.raw(location).iter().map(|&name| NameId(name))
    }

    /// Returns the row of [`Frames::owned`] of a location that has only one frame.
    #[inline]
    pub(crate) fn only(&self, location: LocationId) -> Option<u32> {
        Some(self.only[location.index()]).filter(|&row| row != MANY)
    }

    /// Returns the rows of [`Frames::owned`] of a location's frames, innermost first.
    #[inline]
    pub(crate) fn rows(&self, location: LocationId) -> &[u32] {
        &self.rows[self.table.range(location)]
    }

    #[inline]
    pub(crate) fn raw(&self, location: LocationId) -> &[u32] {
        self.table.at(location)
    }
}

struct FramesBuilder<'a> {
    profile: &'a Profile,
    by_string: Vec<u32>,
    by_text: FxHashMap<u64, Vec<u32>>,
    names: Vec<FrameName>,
    rows: Vec<u32>,
    owned: Vec<OwnedName>,
    owned_rows: FxHashMap<OwnedName, u32>,
    owner_table: Vec<Owner>,
    function_owners: Vec<OwnerId>,
    mapping_owners: Vec<OwnerId>,
}

impl<'a> FramesBuilder<'a> {
    fn new(profile: &'a Profile, owners: &Owners) -> Self {
        let mut ids = OwnerTable { owners: vec![Owner::Unknown], rows: FxHashMap::default() };
        let functions = (0..profile.functions().len()).map(FunctionId::from_index);
        let function_owners = functions.map(|id| ids.id(owners.of_function(id))).collect();
        let mappings = (0..profile.mappings().len()).map(MappingId::from_index);
        let mapping_owners = mappings.map(|id| ids.id(owners.of_mapping(Some(id)))).collect();
        Self {
            profile,
            by_string: vec![u32::MAX; profile.strings().len()],
            by_text: FxHashMap::default(),
            names: Vec::new(),
            rows: Vec::with_capacity(profile.locations().len()),
            owned: Vec::new(),
            owned_rows: FxHashMap::default(),
            owner_table: ids.owners,
            function_owners,
            mapping_owners,
        }
    }

    fn push_frames(&mut self, location: &Location, table: &mut FrameTable) {
        let lines = self.profile.lines_of(location);
        let name = |line: &Line| match line.function {
            Some(function) => self.function(location, function),
            None => self.unnamed(location),
        };
        match lines {
            [] => table.push([self.unnamed(location)]),
            lines => table.push(lines.iter().map(name)),
        }
    }

    fn function(&mut self, location: &Location, id: FunctionId) -> u32 {
        let function = self.profile.function(id);
        let string = if function.name.is_empty() { function.system_name } else { function.name };
        if string.is_empty() {
            return self.unnamed(location);
        }
        let owner = self.function_owners[id.index()];
        let mut name = self.by_string[string.index()];
        if name == u32::MAX {
            name = self.push(Text::Interned(string), Some(id), owner);
            self.by_string[string.index()] = name;
        }
        self.push_row(name, owner)
    }

    /// Returns the name of a frame without symbols, which is that of its mapping.
    fn unnamed(&mut self, location: &Location) -> u32 {
        let owner = location.mapping.map_or(OwnerId::UNKNOWN, |id| self.mapping_owners[id.index()]);
        let file = location.mapping.map_or("", |id| self.profile.string(self.profile.mapping(id).filename));
        let base = file.rsplit('/').next().unwrap_or_default();
        let text = match base {
            "" => "<unknown>".to_owned(),
            bracketed if bracketed.starts_with('[') => bracketed.to_owned(),
            plain => format!("[{plain}]"),
        };
        let hash = FxBuildHasher.hash_one(text.as_str());
        for &known in self.by_text.get(&hash).into_iter().flatten() {
            if matches!(&self.names[known as usize].text, Text::Made(other) if **other == *text) {
                return self.push_row(known, owner);
            }
        }
        let name = self.push(Text::Made(text.into()), None, owner);
        self.by_text.entry(hash).or_default().push(name);
        self.push_row(name, owner)
    }

    fn push(&mut self, text: Text, function: Option<FunctionId>, owner: OwnerId) -> u32 {
        self.names.push(FrameName { text, function, owner });
        (self.names.len() - 1) as u32
    }

    /// Adds the owner of the next frame, and returns the frame's name.
    fn push_row(&mut self, name: u32, owner: OwnerId) -> u32 {
        let owned = OwnedName { name: NameId(name), owner };
        let row = *self.owned_rows.entry(owned).or_insert_with(|| {
            self.owned.push(owned);
            (self.owned.len() - 1) as u32
        });
        self.rows.push(row);
        name
    }
}

/// Numbers owners.
struct OwnerTable {
    owners: Vec<Owner>,
    rows: FxHashMap<Owner, OwnerId>,
}

impl OwnerTable {
    fn id(&mut self, owner: &Owner) -> OwnerId {
        if *owner == Owner::Unknown {
            return OwnerId::UNKNOWN;
        }
        if let Some(&known) = self.rows.get(owner) {
            return known;
        }
        // More owners than this are no real program's.
        if self.owners.len() >= MOST_OWNERS {
            return OwnerId::UNKNOWN;
        }
        let id = OwnerId::from_index(self.owners.len());
        self.owners.push(owner.clone());
        self.rows.insert(owner.clone(), id);
        id
    }
}
