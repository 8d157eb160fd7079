//! Costs by the owner of the code: your functions, crates, modules, lines or threads.
//!
//! The cost of others' code is charged to the nearest frame of yours, broken down into its parts.

mod activity;

use std::collections::hash_map::Entry;
use std::str::FromStr;

use flamelet_profile::{LocationId, Profile, Sample};
use flamelet_symbol::owner::{Owner, Owners};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::names::module_of_file;
use crate::report::Report;
use activity::activity_of;
pub(crate) use activity::path_of;

/// What costs are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Your functions.
    Yours,
    /// Crates, with their versions.
    Crate,
    /// Modules.
    Module,
    /// Lines of your code.
    Line,
    /// Threads, by name.
    Thread,
}

impl Grouping {
    /// Every grouping with its name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("yours", Self::Yours),
        ("crate", Self::Crate),
        ("module", Self::Module),
        ("line", Self::Line),
        ("thread", Self::Thread),
    ];

    /// Returns whether others' code is charged to yours.
    const fn charges_yours(self) -> bool {
        matches!(self, Self::Yours | Self::Line)
    }
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, grouping)| *grouping).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown grouping {text:?}: use one of {}", names.join(", "))
        })
    }
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The function, crate, module, line or thread.
    pub name: String,
    /// Whose code it is: `yours`, `dependency`, `std`, `runtime`, `system`, `kernel`, `unknown`; empty for threads.
    pub owner: &'static str,
    /// The cost charged to this group.
    pub flat: i64,
    /// The cost charged to this group and everything that it calls.
    pub cum: i64,
    /// What the flat cost consists of, largest first.
    pub parts: Vec<Part>,
}

/// A part of what a group costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// `own code`, `allocating`, `hashing`, …, or the name of the crate.
    pub name: String,
    /// Its cost.
    pub value: i64,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Groups {
    /// The name of the grouping.
    pub by: &'static str,
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// The base of percentages.
    pub total: i64,
    /// How much of the total has no frame of yours; 0 if that does not matter.
    pub without_yours: i64,
    /// The groups, most expensive first.
    pub rows: Vec<Group>,
    /// How many groups there were before the count was limited.
    pub candidates: usize,
}

/// Sums the costs of `report` by `grouping`; at most as many groups as its options ask for.
pub fn by(report: &Report, grouping: Grouping, owners: &Owners) -> Groups {
    let mut groups = all_groups(report, grouping, owners);
    if let Some(limit @ 1..) = report.options.node_count {
        groups.rows.truncate(limit);
    }
    groups
}

/// Sums the costs of `report` by `grouping`, and returns every group.
pub(crate) fn all_groups(report: &Report, grouping: Grouping, owners: &Owners) -> Groups {
    let profile = &report.profile;
    let frames = Frames::of(profile, owners, grouping);
    let mut sums = Sums::default();
    for sample in profile.samples() {
        sums.add(&frames, profile, &sample, report.value(&sample), grouping);
    }
    let (mut rows, candidates) = (sums.rows(&frames), sums.groups.len());
    let is_cum = report.options.sort == crate::options::Sort::Cum;
    rows.sort_by(|a, b| {
        let key = |row: &Group| if is_cum { row.cum } else { row.flat };
        key(b).unsigned_abs().cmp(&key(a).unsigned_abs()).then_with(|| a.name.cmp(&b.name))
    });
    Groups {
        by: Grouping::ALL.iter().find(|(_, known)| *known == grouping).map_or("", |(name, _)| name),
        sample_type: report.value_name(),
        unit: report.unit().to_string(),
        total: report.total,
        without_yours: sums.without_yours,
        rows,
        candidates,
    }
}

/// A group by its row in [`Frames::names`].
type GroupId = u32;

/// What is known about each frame of a profile: one entry for each line of each location.
struct Frames {
    ends: Vec<u32>,
    frames: Vec<Frame>,
    names: Vec<(String, &'static str)>,
    part_names: Vec<String>,
}

#[derive(Clone, Copy)]
struct Frame {
    group: GroupId,
    is_yours: bool,
    /// The work it does, and whether that is an activity or only the name of its crate.
    part: u32,
    is_activity: bool,
    /// The name of its owner, in the same table.
    owner: u32,
}

impl Frames {
    fn of(profile: &Profile, owners: &Owners, grouping: Grouping) -> Self {
        let mut table =
            Self { ends: Vec::new(), frames: Vec::new(), names: Vec::new(), part_names: Vec::new() };
        let (mut groups, mut parts) = (FxHashMap::default(), FxHashMap::default());
        for location in profile.locations() {
            let binary = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
            let mut add = |name: &str, file: &str, line: i64, owner: &Owner| {
                let group = (group_name(grouping, name, file, line, binary, owner), owner.kind());
                let activity = activity_of(name, file);
                let part = activity.map_or_else(|| format!("in {}", owner.label()), str::to_owned);
                let frame = Frame {
                    group: interned(&mut groups, &mut table.names, group),
                    is_yours: owner.is_yours(),
                    part: interned(&mut parts, &mut table.part_names, part),
                    is_activity: activity.is_some() && !owner.is_yours(),
                    owner: interned(&mut parts, &mut table.part_names, owner.label()),
                };
                table.frames.push(frame);
            };
            let lines = profile.lines_of(location);
            if lines.is_empty() {
                add("", "", 0, owners.of_mapping(location.mapping));
            }
            for line in lines {
                let Some(function) = line.function else {
                    add("", "", 0, owners.of_mapping(location.mapping));
                    continue;
                };
                let owner = owners.of_function(function);
                let function = profile.function(function);
                add(profile.string(function.name), profile.string(function.filename), line.line, owner);
            }
            table.ends.push(u32::try_from(table.frames.len()).unwrap_or(u32::MAX));
        }
        table
    }

    fn at(&self, location: LocationId) -> &[Frame] {
        let index = location.index();
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.frames[start..self.ends[index] as usize]
    }
}

/// Returns the row of `value` in `table`, to which it is added if it is new.
fn interned<T: Clone + Eq + std::hash::Hash>(
    known: &mut FxHashMap<T, u32>,
    table: &mut Vec<T>,
    value: T,
) -> u32 {
    match known.entry(value) {
        Entry::Occupied(entry) => *entry.get(),
        Entry::Vacant(entry) => {
            table.push(entry.key().clone());
            *entry.insert(u32::try_from(table.len() - 1).unwrap_or(u32::MAX))
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

/// The sums over the samples.
#[derive(Default)]
struct Sums {
    groups: FxHashMap<GroupKey, GroupSums>,
    without_yours: i64,
    /// The groups of the current sample, so that recursion counts once.
    seen: FxHashSet<GroupKey>,
}

/// A group of frames, or a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    Frames(GroupId),
    Named(String),
}

#[derive(Default)]
struct GroupSums {
    flat: i64,
    cum: i64,
    parts: FxHashMap<u32, i64>,
}

/// The part that is a group's own code.
const OWN: u32 = u32::MAX;

impl Sums {
    fn add(
        &mut self,
        frames: &Frames,
        profile: &Profile,
        sample: &Sample<'_>,
        value: i64,
        grouping: Grouping,
    ) {
        if value == 0 {
            return;
        }
        let stack: Vec<Frame> =
            profile.stack(sample.stack).iter().flat_map(|&location| frames.at(location)).copied().collect();
        if grouping == Grouping::Thread {
            return self.charge(GroupKey::Named(thread_of(profile, sample)), value, OWN);
        }
        let yours = stack.iter().position(|frame| frame.is_yours);
        let charged = if grouping.charges_yours() { yours } else { Some(0) };
        self.seen.clear();
        for frame in stack.iter().filter(|frame| frame.is_yours || !grouping.charges_yours()) {
            if self.seen.insert(GroupKey::Frames(frame.group)) {
                add(&mut self.groups.entry(GroupKey::Frames(frame.group)).or_default().cum, value);
            }
        }
        match charged.and_then(|at| stack.get(at).map(|frame| (at, frame))) {
            Some((at, frame)) => {
                let group = self.groups.entry(GroupKey::Frames(frame.group)).or_default();
                add(&mut group.flat, value);
                add(group.parts.entry(part_of(&stack[..at])).or_default(), value);
            }
            None => {
                add(&mut self.without_yours, value);
                let name = outside(frames, &stack);
                self.charge(GroupKey::Named(name), value, part_of(&stack));
            }
        }
    }

    fn charge(&mut self, key: GroupKey, value: i64, part: u32) {
        let group = self.groups.entry(key).or_default();
        add(&mut group.flat, value);
        add(&mut group.cum, value);
        add(group.parts.entry(part).or_default(), value);
    }

    fn rows(&self, frames: &Frames) -> Vec<Group> {
        let rows = self.groups.iter().map(|(key, sums)| {
            let (name, owner) = match key {
                GroupKey::Frames(id) => frames.names[*id as usize].clone(),
                GroupKey::Named(name) => (name.clone(), ""),
            };
            let mut parts: Vec<Part> = sums
                .parts
                .iter()
                .map(|(&part, &value)| Part {
                    name: frames.part_names.get(part as usize).cloned().unwrap_or_else(|| "own code".into()),
                    value,
                })
                .collect();
            parts.sort_by(|a, b| {
                b.value.unsigned_abs().cmp(&a.value.unsigned_abs()).then_with(|| a.name.cmp(&b.name))
            });
            Group { name, owner, flat: sums.flat, cum: sums.cum, parts }
        });
        rows.collect()
    }
}

/// Adds up values from a file, which may be as large as they like.
pub(crate) fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

/// Returns what the frames below yours do: the outermost activity in the table, since that is what your code asked
/// for.
fn part_of(below: &[Frame]) -> u32 {
    match below {
        [] => OWN,
        [.., last] => below.iter().rev().find(|frame| frame.is_activity).unwrap_or(last).part,
    }
}

/// Returns a name for a stack without a frame of yours: its owner, seen from the root.
fn outside(frames: &Frames, stack: &[Frame]) -> String {
    let says_nothing =
        |frame: &&Frame| ["std", "system", "unknown"].contains(&frames.names[frame.group as usize].1);
    let speaking = stack.iter().rev().find(|frame| !says_nothing(frame)).or(stack.first());
    let owner = speaking.map_or("nothing", |frame| &frames.part_names[frame.owner as usize]);
    format!("[not called by your code: {owner}]")
}

/// Returns the thread of a sample, by its label.
pub(crate) fn thread_of(profile: &Profile, sample: &Sample<'_>) -> String {
    let labels = profile.labels(sample.labels);
    let named = |key: &str| labels.iter().find(|label| profile.string(label.key) == key);
    let text = named("thread").or_else(|| named("thread_name")).map(|label| profile.string(label.text));
    match (text.filter(|text| !text.is_empty()), named("tid").or_else(|| named("thread_id"))) {
        (Some(text), _) => text.to_owned(),
        (None, Some(tid)) if tid.is_text() => profile.string(tid.text).to_owned(),
        (None, Some(tid)) => format!("thread {}", tid.number),
        (None, None) => "<unknown>".into(),
    }
}

#[cfg(test)]
mod tests;
