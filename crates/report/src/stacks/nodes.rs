//! The nodes of reports: which frames form one entry, and its name.

use flamelet_profile::{Line, LocationId, Profile, StringId};
use rustc_hash::FxHashMap;

use super::table::FrameTable;
use crate::names::base_name;

/// What identifies an entry. Frames with the same info belong to one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeInfo {
    /// The function.
    pub(crate) name: StringId,
    /// The address, 0 when addresses do not matter.
    pub(crate) address: u64,
    /// The source file, empty when files do not matter.
    pub(crate) file: StringId,
    /// The line where the function starts, for reports about objects.
    pub(crate) start_line: i64,
    /// The line, 0 when lines do not matter.
    pub(crate) line: i64,
    /// The column, 0 when columns do not matter.
    pub(crate) column: i64,
    /// The binary, for reports about objects and for frames without a name.
    pub(crate) object: StringId,
}

impl NodeInfo {
    pub(crate) fn name_parts(&self, profile: &Profile) -> Vec<String> {
        let mut parts = Vec::new();
        if self.address != 0 {
            parts.push(format!("{:016x}", self.address));
        }
        if !self.name.is_empty() {
            parts.push(profile.string(self.name).to_string());
        }
        let file = profile.string(self.file);
        if self.line != 0 {
            let column = if self.column == 0 { String::new() } else { format!(":{}", self.column) };
            parts.push(format!("{file}:{}{column}", self.line));
        } else if !file.is_empty() {
            parts.push(file.to_string());
        } else if !self.name.is_empty() {
            // A function's name is enough.
        } else if !self.object.is_empty() {
            parts.push(format!("[{}]", base_name(profile.string(self.object))));
        } else {
            parts.push("<unknown>".into());
        }
        parts
    }

    /// Returns the name as reports print it.
    pub(crate) fn printable(&self, profile: &Profile) -> String {
        self.name_parts(profile).join(" ")
    }
}

/// A node by its row in [`Nodes::infos`].
pub(crate) type NodeId = u32;

/// The nodes of a profile, and which of them each location stands for.
pub(crate) struct Nodes {
    pub(crate) infos: Vec<NodeInfo>,
    pub(crate) table: FrameTable,
}

impl Nodes {
    /// Finds the nodes. With `by_object`, functions of different binaries stay apart.
    pub(crate) fn of(profile: &Profile, by_object: bool) -> Self {
        let mut infos = Vec::new();
        let mut table = FrameTable::with_capacity(profile.locations().len());
        let mut known: FxHashMap<NodeInfo, NodeId> = FxHashMap::default();
        let mut intern = |info: NodeInfo| {
            *known.entry(info).or_insert_with(|| {
                infos.push(info);
                infos.len() as NodeId - 1
            })
        };
        for location in profile.locations() {
            let object = location.mapping.map_or(StringId::EMPTY, |id| profile.mapping(id).filename);
            let nameless = NodeInfo { address: location.address, object, ..NodeInfo::default() };
            let lines = profile.lines_of(location);
            let of_line = |line: &Line| match line.function.map(|id| profile.function(id)) {
                None => nameless,
                Some(function) => {
                    let is_told_apart = by_object || function.name.is_empty();
                    NodeInfo {
                        name: function.name,
                        address: location.address,
                        file: function.filename,
                        start_line: if is_told_apart { function.start_line } else { 0 },
                        line: line.line,
                        column: line.column,
                        object: if is_told_apart { object } else { StringId::EMPTY },
                    }
                }
            };
            match lines {
                [] => table.push([intern(nameless)]),
                lines => table.push(lines.iter().map(|line| intern(of_line(line)))),
            }
        }
        Self { infos, table }
    }

    /// Returns the nodes of a location, innermost inlined frame first.
    #[inline]
    pub(crate) fn at(&self, location: LocationId) -> &[NodeId] {
        self.table.at(location)
    }

    /// Returns how many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.infos.len()
    }
}
