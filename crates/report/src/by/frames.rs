//! What is known about each frame of a profile, for one grouping.

use std::collections::hash_map::Entry;

use flamelet_profile::{FunctionId, Line, Location, MappingId, Profile};
use flamelet_symbol::owner::{Owner, Owners};
use flamelet_symbol::rust_name::crate_of_symbol;
use rustc_hash::FxHashMap;

use super::Grouping;
use super::activity::{ALLOCATING, activity_of, path_of};
use crate::names::{crate_name, is_profiled_allocator, module_of_file, without_arguments};
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
    /// The part that is what allocators do.
    pub(super) allocating: PartId,
}

/// What makes frames equal: the function, the binary, and the line if the grouping is by line.
type FrameKey = (Option<FunctionId>, Option<MappingId>, i64);

impl Frames {
    pub(super) fn of(profile: &Profile, owners: &Owners, grouping: Grouping) -> Self {
        let by_module = grouping == Grouping::Module;
        let mut builder = GroupsBuilder {
            profile,
            owners,
            grouping,
            crates: if by_module { crates_by_folder(profile) } else { FxHashMap::default() },
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
        let GroupsBuilder { infos, groups, mut parts, .. } = builder;
        let allocating = parts.row(ALLOCATING.to_owned());
        Self { table, infos, groups: groups.rows, parts: parts.rows, allocating }
    }
}

struct GroupsBuilder<'a> {
    profile: &'a Profile,
    owners: &'a Owners,
    grouping: Grouping,
    /// The crate whose sources are in each folder, if groups are modules.
    crates: FxHashMap<&'a str, &'a str>,
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
        let (name, symbol, file, number, owner) = match line.function {
            None => ("", "", "", 0, self.owners.of_mapping(location.mapping)),
            Some(id) => {
                let function = profile.function(id);
                let [name, symbol, file] =
                    [function.name, function.system_name, function.filename].map(|text| profile.string(text));
                (name, symbol, file, line.line, self.owners.of_function(id))
            }
        };
        // A system's library is a module: the headers of C++ have functions of the same namespaces.
        let has_modules = self.grouping == Grouping::Module && !matches!(owner, Owner::System(_));
        let module = has_modules.then(|| self.module(name, symbol, file)).flatten();
        let group = module.unwrap_or_else(|| group_name(self.grouping, name, file, number, binary, owner));
        let is_allocator = is_profiled_allocator(&path_of(name, file));
        let is_yours = owner.is_yours() && !is_allocator;
        let activity = if is_allocator { Some(ALLOCATING) } else { activity_of(name, file) };
        let part = activity.map_or_else(|| format!("in {}", owner.label()), str::to_owned);
        ChargedFrame {
            group: self.groups.row((group, owner.kind())),
            part: self.parts.row(part),
            owner: self.parts.row(if is_allocator { "flamelet_capture".to_owned() } else { owner.label() }),
            is_yours,
            is_activity: activity.is_some() && !is_yours,
            is_telling: !is_allocator && !matches!(owner, Owner::Std | Owner::System(_) | Owner::Unknown),
        }
    }

    /// Returns the module of a Rust function: by its file if that is known, else its path without the last name; or the
    /// package of a Go function.
    fn module(&self, name: &str, symbol: &str, file: &str) -> Option<String> {
        if let Some(package) = go_package(name, file) {
            return Some(package.to_owned());
        }
        let Some(module) = module_of_file(file) else {
            let path = path_of(name, file);
            // C++ names have types around the path: `void app::sort(std::vector<int>)`.
            let path = without_arguments(&path);
            let path = path.split('<').next().unwrap_or_default().trim_end_matches("::");
            return path.rsplit_once("::").map(|(module, _)| module.to_owned());
        };
        let of_folder = || self.crates.get(package_folder(file)?).copied();
        Some(match (defining_crate(name, symbol).or_else(of_folder), module.split_once("::")) {
            (Some(krate), Some((_, inside))) => format!("{krate}::{inside}"),
            (Some(krate), None) => krate.to_owned(),
            (None, _) => module,
        })
    }
}

/// Returns the crate that defines a function, if its name or its symbol says so. The name of an implementation does not: that
/// may be in the crate of the trait or of the type.
fn defining_crate<'n>(name: &'n str, symbol: &'n str) -> Option<&'n str> {
    let by_name = || crate_name(name).filter(|krate| !name.starts_with('<') && *krate != "__rustc");
    crate_of_symbol(symbol, name).or_else(by_name)
}

/// Returns the package of a Go function: `net/http` of `net/http.(*conn).serve`.
fn go_package<'n>(name: &'n str, file: &str) -> Option<&'n str> {
    // Type parameters have packages too.
    let path = name.split('[').next().filter(|_| file.ends_with(".go") || file.ends_with(".s"))?;
    let last = path.rfind('/').map_or(0, |at| at + 1);
    let dot = path[last..].find('.')?;
    Some(&path[..last + dot])
}

/// Returns the folder of the package that a source file belongs to.
fn package_folder(file: &str) -> Option<&str> {
    file.strip_suffix(".rs")?.rsplit_once("/src/").map(|(folder, _)| folder)
}

/// Returns the crate whose sources are in each folder, which often has another name: most functions there say which.
fn crates_by_folder(profile: &Profile) -> FxHashMap<&str, &str> {
    let mut counts: FxHashMap<(&str, &str), usize> = FxHashMap::default();
    for function in profile.functions() {
        let [name, symbol, file] =
            [function.name, function.system_name, function.filename].map(|text| profile.string(text));
        if let (Some(folder), Some(krate)) = (package_folder(file), defining_crate(name, symbol)) {
            *counts.entry((folder, krate)).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|&((folder, krate), count)| (folder, count, krate));
    counts.into_iter().map(|(pair, _)| pair).collect()
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
        Grouping::Crate | Grouping::Module => crate_label(name, file, owner, unnamed),
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
            // A function of C++ may begin with its type, and need not be in a namespace: `f(std::string)`.
            let first = path.split_once("::").map(|(first, _)| first.rsplit(' ').next().unwrap_or(first));
            let is_name = |text: &&str| {
                !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || "_-".contains(one))
            };
            first.filter(is_name).map_or_else(unnamed, str::to_owned)
        }
        Owner::Unknown => unnamed(),
        owner => owner.label(),
    }
}
