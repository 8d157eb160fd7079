//! Frames by name: what a flame graph draws as one box.

use std::hash::BuildHasher;

use flamelet_profile::{FunctionId, Location, LocationId, Profile, StringId};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::palette::{crate_of, crate_of_file};

/// A row of [`Frames`]: a name that boxes carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub(crate) u32);

impl NameId {
    /// The row in the table.
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

/// The frames of every location of a profile as names, inlined frames included. Two functions with the
/// same name are one, as in pprof's `functions` granularity; a location without symbols carries the name
/// of its mapping in brackets.
#[derive(Clone, Debug)]
pub struct Frames {
    names: Vec<Name>,
    /// Where the frames of each location start in `lines`; one more than there are locations.
    starts: Vec<u32>,
    /// Innermost first, as in [`Profile::lines`].
    lines: Vec<u32>,
    /// The name of each location that has one frame, as most have, else [`MANY`]: one look instead of three.
    only: Vec<u32>,
}

/// See [`Frames::only`].
const MANY: u32 = u32::MAX;

impl Frames {
    /// About how many bytes it takes.
    pub fn byte_size(&self) -> usize {
        let Self { names, starts, lines, only } = self;
        size_of_val(&**names) + size_of_val(&**starts) + size_of_val(&**lines) + size_of_val(&**only)
    }

    /// Reads the names of all locations of `profile`.
    pub fn new(profile: &Profile) -> Self {
        let mut made = Builder {
            profile,
            by_string: vec![u32::MAX; profile.strings().len()],
            by_text: FxHashMap::default(),
            names: Vec::new(),
        };
        let mut starts = Vec::with_capacity(profile.locations().len() + 1);
        let mut lines = Vec::with_capacity(profile.locations().len());
        starts.push(0);
        for location in profile.locations() {
            made.push_frames(location, &mut lines);
            starts.push(u32::try_from(lines.len()).expect("a profile holds fewer than 2^32 lines"));
        }
        let only = starts.windows(2).map(|ends| match ends[1] - ends[0] {
            1 => lines[ends[0] as usize],
            _ => MANY,
        });
        Self { names: made.names, only: only.collect(), starts, lines }
    }

    /// How many different names there are.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Every name.
    pub fn name_ids(&self) -> impl ExactSizeIterator<Item = NameId> + use<> {
        (0..self.names.len() as u32).map(NameId)
    }

    /// The text of a name; `profile` is the one that [`Frames::new`] was given.
    pub fn text<'a>(&'a self, profile: &'a Profile, name: NameId) -> &'a str {
        match &self.names[name.index()].text {
            Text::Interned(id) => profile.string(*id),
            Text::Made(text) => text,
        }
    }

    /// One function of this name, where symbols are known.
    pub fn function(&self, name: NameId) -> Option<FunctionId> {
        self.names[name.index()].function
    }

    /// The crate that a name belongs to: as the name says, else as its source file says; empty if unknown.
    pub fn krate(&self, profile: &Profile, name: NameId) -> String {
        let krate = crate_of(self.text(profile, name));
        match self.function(name) {
            Some(function) if krate.is_empty() => {
                crate_of_file(profile.string(profile.function(function).filename))
            }
            _ => krate.to_owned(),
        }
    }

    /// The name whose text is `text`.
    pub fn find(&self, profile: &Profile, text: &str) -> Option<NameId> {
        self.name_ids().find(|&name| self.text(profile, name) == text)
    }

    /// The frames at a location, innermost first. There is always at least one.
    pub fn of(&self, location: LocationId) -> impl DoubleEndedIterator<Item = NameId> + '_ {
        self.raw(location).iter().map(|&name| NameId(name))
    }

    /// The name of a location that has one frame only.
    #[inline]
    pub(crate) fn only(&self, location: LocationId) -> Option<u32> {
        Some(self.only[location.index()]).filter(|&name| name != MANY)
    }

    #[inline]
    pub(crate) fn raw(&self, location: LocationId) -> &[u32] {
        let at = location.index();
        &self.lines[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

struct Builder<'a> {
    profile: &'a Profile,
    by_string: Vec<u32>,
    by_text: FxHashMap<u64, Vec<u32>>,
    names: Vec<Name>,
}

impl Builder<'_> {
    fn push_frames(&mut self, location: &Location, lines: &mut Vec<u32>) {
        let before = lines.len();
        for line in self.profile.lines_of(location) {
            let name = match line.function {
                Some(function) => self.function(location, function),
                None => self.unnamed(location),
            };
            lines.push(name);
        }
        if lines.len() == before {
            lines.push(self.unnamed(location));
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

    /// A frame without symbols: its mapping says where it is.
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
