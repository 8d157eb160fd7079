//! Frames by name: what a flame graph draws as one box.

use std::hash::BuildHasher;

use flamelet_profile::{FunctionId, Line, Location, LocationId, Profile, StringId};
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

#[derive(Clone, Debug)]
enum Text {
    Interned(StringId),
    Made(Box<str>),
}

#[derive(Clone, Debug)]
struct Name {
    text: Text,
    function: Option<FunctionId>,
}

/// The frames of every location of a profile as names, including inlined frames. Two functions with the same name
/// count as one, as in pprof's `functions` granularity; a location without symbols gets the name of its mapping in
/// brackets.
#[derive(Clone, Debug)]
pub struct Frames {
    names: Vec<Name>,
    /// Innermost first, as in [`Profile::lines`].
    pub(crate) table: FrameTable,
    /// The name of each location that has one frame, as most do, else [`MANY`]: one lookup instead of three.
    only: Vec<u32>,
}

/// See [`Frames::only`].
const MANY: u32 = u32::MAX;

impl Frames {
    /// Returns about how many bytes it takes.
    pub fn byte_size(&self) -> usize {
        let Self { names, table, only } = self;
        size_of_val(&**names) + table.byte_size() + size_of_val(&**only)
    }

    /// Reads the names of all locations of `profile`.
    pub fn new(profile: &Profile) -> Self {
        let mut made = Builder {
            profile,
            by_string: vec![u32::MAX; profile.strings().len()],
            by_text: FxHashMap::default(),
            names: Vec::new(),
        };
        let mut table = FrameTable::with_capacity(profile.locations().len());
        for location in profile.locations() {
            made.push_frames(location, &mut table);
        }
        let only = (0..profile.locations().len()).map(|at| match table.at(LocationId::from_index(at)) {
            &[name] => name,
            _ => MANY,
        });
        Self { names: made.names, only: only.collect(), table }
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

    /// Returns the name of a location that has only one frame.
    #[inline]
    pub(crate) fn only(&self, location: LocationId) -> Option<u32> {
        Some(self.only[location.index()]).filter(|&name| name != MANY)
    }

    #[inline]
    pub(crate) fn raw(&self, location: LocationId) -> &[u32] {
        self.table.at(location)
    }
}

struct Builder<'a> {
    profile: &'a Profile,
    by_string: Vec<u32>,
    by_text: FxHashMap<u64, Vec<u32>>,
    names: Vec<Name>,
}

impl Builder<'_> {
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
        let slot = self.by_string[string.index()];
        if slot != u32::MAX {
            return slot;
        }
        let name = self.push(Text::Interned(string), Some(id));
        self.by_string[string.index()] = name;
        name
    }

    /// Returns the name of a frame without symbols, which is that of its mapping.
    fn unnamed(&mut self, location: &Location) -> u32 {
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
                return known;
            }
        }
        let name = self.push(Text::Made(text.into()), None);
        self.by_text.entry(hash).or_default().push(name);
        name
    }

    fn push(&mut self, text: Text, function: Option<FunctionId>) -> u32 {
        self.names.push(Name { text, function });
        (self.names.len() - 1) as u32
    }
}
