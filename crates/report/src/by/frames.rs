//! What is known about each frame of a profile, for one grouping.

use std::collections::hash_map::Entry;

use flamelet_profile::{FunctionId, Line, Location, MappingId, Profile};
use flamelet_symbol::owner::{Owner, Owners};
use rustc_hash::FxHashMap;

use super::Grouping;
use super::activity::{activity_of, path_of};
use crate::names::module_of_file;
use crate::stacks::FrameTable;

/// A group of frames by its row in [`Frames::groups`].
pub(super) type GroupId = u32;
/// A part of a cost by its row in [`Frames::parts`].
pub(super) type PartId = u32;

/// What is known about a frame.
#[derive(Clone, Copy)]
pub(super) struct ChargedFrame {
    pub(super) group: GroupId,
    /// The work it does: an activity, or only the name of its crate.
    pub(super) part: PartId,
    /// The name of its owner, in the same table.
    pub(super) owner: PartId,
    pub(super) is_yours: bool,
    /// `part` is an activity of others' code.
    pub(super) is_activity: bool,
    /// Its owner says more than that it is std or a system library.
    pub(super) is_telling: bool,
}

/// The frames of a profile. Those of equal functions are one.
pub(super) struct Frames {
    /// The rows of `infos` for each location.
    pub(super) table: FrameTable,
    pub(super) infos: Vec<ChargedFrame>,
    /// The name and the kind of owner of each group.
    pub(super) groups: Vec<(String, &'static str)>,
    pub(super) parts: Vec<String>,
}

/// What makes frames equal: the function, the binary, and the line if the grouping is by line.
type FrameKey = (Option<FunctionId>, Option<MappingId>, i64);

impl Frames {
    pub(super) fn of(profile: &Profile, owners: &Owners, grouping: Grouping) -> Self {
        let mut builder = GroupsBuilder {
            profile,
            owners,
            grouping,
            known: FxHashMap::default(),
            infos: Vec::new(),
            groups: Interner::default(),
            parts: Interner::default(),
        };
        let mut table = FrameTable::with_capacity(profile.locations().len());
        for location in profile.locations() {
            match profile.lines_of(location) {
                [] => table.push([builder.frame(location, &Line::default())]),
                lines => table.push(lines.iter().map(|line| builder.frame(location, line))),
            }
        }
        let GroupsBuilder { infos, groups, parts, .. } = builder;
        Self { table, infos, groups: groups.rows, parts: parts.rows }
    }
}

struct GroupsBuilder<'a> {
    profile: &'a Profile,
    owners: &'a Owners,
    grouping: Grouping,
    known: FxHashMap<FrameKey, u32>,
    infos: Vec<ChargedFrame>,
    groups: Interner<(String, &'static str)>,
    parts: Interner<String>,
}

impl GroupsBuilder<'_> {
    fn frame(&mut self, location: &Location, line: &Line) -> u32 {
        let number = if self.grouping == Grouping::Line { line.line } else { 0 };
        let key = (line.function, location.mapping, number);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let info = self.info(location, line);
        self.infos.push(info);
        let row = u32::try_from(self.infos.len() - 1).unwrap_or(u32::MAX);
        self.known.insert(key, row);
        row
    }

    fn info(&mut self, location: &Location, line: &Line) -> ChargedFrame {
        let profile = self.profile;
        let binary = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
        let (name, file, number, owner) = match line.function {
            None => ("", "", 0, self.owners.of_mapping(location.mapping)),
            Some(id) => {
                let function = profile.function(id);
                let (name, file) = (profile.string(function.name), profile.string(function.filename));
                (name, file, line.line, self.owners.of_function(id))
            }
        };
        let group = group_name(self.grouping, name, file, number, binary, owner);
        let activity = activity_of(name, file);
        let part = activity.map_or_else(|| format!("in {}", owner.label()), str::to_owned);
        ChargedFrame {
            group: self.groups.row((group, owner.kind())),
            part: self.parts.row(part),
            owner: self.parts.row(owner.label()),
            is_yours: owner.is_yours(),
            is_activity: activity.is_some() && !owner.is_yours(),
            is_telling: !matches!(owner, Owner::Std | Owner::System(_) | Owner::Unknown),
        }
    }
}

/// Numbers values.
struct Interner<T> {
    known: FxHashMap<T, u32>,
    rows: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { known: FxHashMap::default(), rows: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    /// Returns the row of `value`, to which it is added if it is new.
    fn row(&mut self, value: T) -> u32 {
        match self.known.entry(value) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                self.rows.push(entry.key().clone());
                *entry.insert(u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }
}

fn group_name(grouping: Grouping, name: &str, file: &str, line: i64, binary: &str, owner: &Owner) -> String {
    let unnamed = || match binary.rsplit('/').next() {
        Some(base) if !base.is_empty() => format!("[{}]", base.trim_matches(['[', ']'])),
        _ => "<unknown>".to_owned(),
    };
    match grouping {
        Grouping::Crate => crate_label(name, file, owner, unnamed),
        Grouping::Module => {
            module_name(name, file).unwrap_or_else(|| crate_label(name, file, owner, unnamed))
        }
        Grouping::Line if line > 0 => format!("{file}:{line} {name}"),
        Grouping::Yours | Grouping::Line | Grouping::Thread if name.is_empty() => unnamed(),
        Grouping::Yours | Grouping::Line | Grouping::Thread => name.to_owned(),
    }
}

/// Returns the crate of a frame: with its version for a dependency, by its plain name for yours.
fn crate_label(name: &str, file: &str, owner: &Owner, unnamed: impl Fn() -> String) -> String {
    match owner {
        Owner::Yours => {
            let path = path_of(name, file);
            let krate = path.split("::").next().filter(|first| first.len() < path.len());
            krate.map_or_else(unnamed, str::to_owned)
        }
        Owner::Unknown => unnamed(),
        owner => owner.label(),
    }
}

/// Returns the module of a Rust function: by its file if that is known, else its path without the last name.
fn module_name(name: &str, file: &str) -> Option<String> {
    if let Some(module) = module_of_file(file) {
        return Some(module);
    }
    let path = path_of(name, file);
    let path = path.split('<').next().unwrap_or_default().trim_end_matches("::");
    path.rsplit_once("::").map(|(module, _)| module.to_owned())
}
