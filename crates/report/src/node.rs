//! The nodes of reports: which frames are one entry, and what it is called.

use std::sync::LazyLock;

use flamelet_profile::{LocationId, Profile, StringId};
use regex::Regex;
use rustc_hash::FxHashMap;

use crate::paths::base_name;

/// What makes a frame an entry of its own. Two frames with the same info are one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeInfo {
    /// The function.
    pub name: StringId,
    /// The address, 0 when addresses do not matter.
    pub address: u64,
    /// The source file, empty when files do not matter.
    pub file: StringId,
    /// The line where the function starts, for reports about objects.
    pub start_line: i64,
    /// The line, 0 when lines do not matter.
    pub line: i64,
    /// The column, 0 when columns do not matter.
    pub column: i64,
    /// The binary, for reports about objects and for frames without a name.
    pub object: StringId,
}

impl NodeInfo {
    /// The parts of the name, as far as they are known.
    pub fn name_parts(&self, profile: &Profile) -> Vec<String> {
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
            // A function's name says enough.
        } else if !self.object.is_empty() {
            parts.push(format!("[{}]", base_name(profile.string(self.object))));
        } else {
            parts.push("<unknown>".into());
        }
        parts
    }

    /// The name as reports print it.
    pub fn printable(&self, profile: &Profile) -> String {
        self.name_parts(profile).join(" ")
    }
}

/// A node by its row in [`Nodes::infos`].
pub type NodeId = u32;

/// The nodes of a profile, and which of them each location stands for.
pub struct Nodes {
    /// What each node is.
    pub infos: Vec<NodeInfo>,
    ends: Vec<u32>,
    of_locations: Vec<NodeId>,
}

impl Nodes {
    /// Finds the nodes. With `by_object`, functions of different binaries stay apart.
    pub fn of(profile: &Profile, by_object: bool) -> Self {
        let mut nodes = Self { infos: Vec::new(), ends: Vec::new(), of_locations: Vec::new() };
        let mut known: FxHashMap<NodeInfo, NodeId> = FxHashMap::default();
        let mut intern = |info: NodeInfo, infos: &mut Vec<NodeInfo>| {
            *known.entry(info).or_insert_with(|| {
                infos.push(info);
                infos.len() as NodeId - 1
            })
        };
        for location in profile.locations() {
            let object = location.mapping.map_or(StringId::EMPTY, |id| profile.mapping(id).filename);
            let lines = profile.lines_of(location);
            if lines.is_empty() {
                let info = NodeInfo { address: location.address, object, ..NodeInfo::default() };
                nodes.of_locations.push(intern(info, &mut nodes.infos));
            }
            for line in lines {
                let mut info = NodeInfo { address: location.address, ..NodeInfo::default() };
                match line.function.map(|id| profile.function(id)) {
                    None => info.object = object,
                    Some(function) => {
                        (info.name, info.file) = (function.name, function.filename);
                        (info.line, info.column) = (line.line, line.column);
                        if by_object || info.name.is_empty() {
                            (info.object, info.start_line) = (object, function.start_line);
                        }
                    }
                }
                nodes.of_locations.push(intern(info, &mut nodes.infos));
            }
            nodes.ends.push(nodes.of_locations.len() as u32);
        }
        nodes
    }

    /// The nodes of a location, innermost inlined frame first.
    #[inline]
    pub fn at(&self, location: LocationId) -> &[NodeId] {
        let index = location.index();
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.of_locations[start..self.ends[index] as usize]
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.infos.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.infos.is_empty()
    }
}

/// A name for a box of a graph: without the path of a Go package, the package of a Java class, or the
/// namespaces before the first type of a C++ or Rust name.
pub(crate) fn short_name(name: &str) -> String {
    static SHAPES: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        let shape = |text: &str| Regex::new(text).expect("a valid expression");
        [
            shape(r"^(?:[\w.-]+/)+(?<rest>[^.]+\..+)"),
            shape(r"^(?:[a-z]\w*\.)*(?<rest>[A-Z][\w$]*\.(?:<init>|[a-z][\w$]*(?:\$\d+)?))(?:\(|$)"),
            shape(r"^(?:[A-Za-z_]\w*::)+(?<rest>_*[A-Z]\w*::~?[A-Za-z_]\w*(?:<.*>)?)"),
        ]
    });
    static GO_VERSION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(.*?)/v(?:[2-9]|[1-9]\d+)([./].*)$").expect("a valid expression"));
    let name = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
    let name = GO_VERSION.replace(name, "$1$2");
    let shortened =
        SHAPES.iter().find_map(|shape| shape.captures(&name)).map(|found| found["rest"].to_string());
    shortened.unwrap_or_else(|| name.into_owned())
}
