//! The tree of a flame graph, built only as far as it is viewed.
//!
//! A profile of a million stacks has some forty million boxes, but a screen can show only a few thousand. So the tree
//! starts as one node that owns all stacks, and expanding a node sorts *its* stacks by their next frame: each child
//! then owns a contiguous range of them. A subtree too narrow to be visible is not expanded until someone zooms in
//! there. Nothing is ever lumped into an "other".
//!
//! ```text
//! entries  [ s7 s2 s9 s4 | s1 s8 | s3 | s5 s6 ]      one row per stack, with a cursor into it
//!            └─ child 0 ─┘ └─ 1 ─┘ └ 2┘ └ self ┘     children by weight, then the stacks that end here
//! ```

use std::ops::{Deref, Range};
use std::sync::Arc;

use flamelet_profile::{LocationId, Profile, StackId};

use crate::names::RUNTIME_GROUP;
use crate::stacks::{Frames, NameId, Part, StackWeights, Value};

const NONE: u32 = u32::MAX;

/// Which way stacks are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the thread's start to the sampled function: the usual flame graph.
    #[default]
    Callees,
    /// From the sampled function to the thread's start: the inverted graph.
    Callers,
}

/// A node of a [`FlameTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node that owns all stacks and has no name, unless the tree has a pivot.
    pub const ROOT: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many frames an entry reads ahead. Stacks lie far apart in memory, so one visit reads several.
const AHEAD: usize = 8;

/// One stack and how far the tree has walked along it.
#[derive(Clone, Copy, Debug)]
struct StackCursor {
    value: i64,
    stack: u32,
    is_base: bool,
    /// How many of `ahead` have been used up.
    used: u8,
    location: u32,
    line: u32,
    /// The next frames, [`NONE`] after the last.
    ahead: [u32; AHEAD],
}

impl StackCursor {
    /// Creates an entry; `location` and `line` are where the walk starts; see [`step_to_leaf`] and [`step_to_root`].
    fn new(stack: StackId, part: Part, location: usize, line: usize) -> Self {
        Self {
            value: part.value,
            stack: stack.index() as u32,
            is_base: part.is_base,
            used: AHEAD as u8,
            location: location as u32,
            line: line as u32,
            ahead: [NONE; AHEAD],
        }
    }

    fn value(&self) -> Value {
        Part { value: self.value, is_base: self.is_base }.into()
    }

    /// Returns the frame that the last step read.
    fn name(&self) -> u32 {
        self.ahead[self.used as usize - 1]
    }
}

#[derive(Clone, Debug)]
struct TreeNode {
    parent: u32,
    name: u32,
    depth: u32,
    first_child: u32,
    child_count: u32,
    start: u32,
    end: u32,
    x: u64,
    value: Value,
    own: Value,
}

/// A flame graph's tree. `P` is how the profile is held: `&Profile` or `Arc<Profile>`.
pub struct FlameTree<P> {
    profile: P,
    frames: Arc<Frames>,
    direction: Direction,
    entries: Vec<StackCursor>,
    nodes: Vec<TreeNode>,
    /// A name whose consecutive boxes are merged, else [`NONE`].
    folded: u32,
    /// For each name its group in the current expansion, else [`NONE`].
    groups_by_name: Vec<u32>,
}

struct Group {
    name: u32,
    count: u32,
    next: u32,
    value: Value,
}

impl<P: Deref<Target = Profile>> FlameTree<P> {
    /// Returns about how many bytes the tree takes, not counting its profile and its frames.
    pub fn byte_size(&self) -> usize {
        let Self { entries, nodes, groups_by_name, .. } = self;
        // Nodes are added as they are viewed, so there is spare capacity.
        size_of_val(&**entries) + nodes.capacity() * size_of::<TreeNode>() + size_of_val(&**groups_by_name)
    }

    /// Creates the tree of all stacks.
    pub fn new(profile: P, frames: Arc<Frames>, weights: &StackWeights, direction: Direction) -> Self {
        let mut entries = Vec::with_capacity(weights.len());
        for (stack, part) in weights.parts() {
            let location = match direction {
                Direction::Callees => profile.stack(stack).len(),
                Direction::Callers => 0,
            };
            entries.push(StackCursor::new(stack, part, location, 0));
        }
        Self::with_entries(profile, frames, direction, entries, NONE)
    }

    /// Creates the tree of what `pivot` calls, or of what calls it: one half of a sandwich. A stack counts once, from
    /// its outermost call of `pivot`, so that both halves have the weight of the function.
    pub fn around(
        profile: P,
        frames: Arc<Frames>,
        weights: &StackWeights,
        direction: Direction,
        pivot: NameId,
    ) -> Self {
        let here = frames_named(&profile, &frames, pivot);
        let mut entries = Vec::new();
        for (stack, part) in weights.parts() {
            let locations = profile.stack(stack);
            let Some(at) = locations.iter().rposition(|location| here[location.index()]) else { continue };
            let lines = frames.raw(locations[at]);
            let line = lines.iter().rposition(|&name| name == pivot.0).expect("this location has the name");
            let line = match direction {
                Direction::Callees => line,
                Direction::Callers => line + 1,
            };
            entries.push(StackCursor::new(stack, part, at, line));
        }
        Self::with_entries(profile, frames, direction, entries, pivot.0)
    }

    fn with_entries(
        profile: P,
        frames: Arc<Frames>,
        direction: Direction,
        entries: Vec<StackCursor>,
        name: u32,
    ) -> Self {
        let value = entries.iter().map(StackCursor::value).sum();
        let end = u32::try_from(entries.len()).expect("a profile holds fewer than 2^32 stacks");
        let root = TreeNode {
            parent: NONE,
            name,
            depth: 0,
            first_child: NONE,
            child_count: 0,
            start: 0,
            end,
            x: 0,
            value,
            own: Value::default(),
        };
        let groups_by_name = vec![NONE; frames.name_count()];
        let folded = frames.find(&profile, RUNTIME_GROUP).map_or(NONE, |name| name.0);
        Self { profile, frames, direction, entries, nodes: vec![root], folded, groups_by_name }
    }

    /// Returns the profile that the tree shows.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the names of its boxes.
    pub fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// Returns how many nodes have been created so far.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node's name; `None` for the root of all stacks.
    pub fn name(&self, node: NodeId) -> Option<NameId> {
        let name = self.nodes[node.index()].name;
        (name != NONE).then_some(NameId(name))
    }

    /// Returns the text of the node's name, `root` for the root of all stacks.
    pub fn text(&self, node: NodeId) -> &str {
        self.name(node).map_or("root", |name| self.frames.text(&self.profile, name))
    }

    /// Returns how many ancestors the node has.
    pub fn depth(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].depth
    }

    /// Returns the parent node.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        let parent = self.nodes[node.index()].parent;
        (parent != NONE).then_some(NodeId(parent))
    }

    /// Returns the total of the node's stacks.
    pub fn value(&self, node: NodeId) -> Value {
        self.nodes[node.index()].value
    }

    /// Returns the total of the stacks that end at this node. Known only once the node has been expanded.
    pub fn own(&self, node: NodeId) -> Value {
        self.nodes[node.index()].own
    }

    /// Returns where the node starts, in weight from the left edge of the root.
    pub fn x(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].x
    }

    /// Returns the children, heaviest first. The first call creates them.
    pub fn children(&mut self, node: NodeId) -> impl ExactSizeIterator<Item = NodeId> + use<P> {
        if self.nodes[node.index()].first_child == NONE {
            self.expand(node.index());
        }
        let found = &self.nodes[node.index()];
        (found.first_child..found.first_child + found.child_count).map(NodeId)
    }

    /// Follows `keys` from the root, each the [`name_key`] of a child; returns the node reached and how many keys
    /// were found. A path with frames that no longer exist is followed as far as possible.
    pub fn walk(&mut self, keys: impl IntoIterator<Item = u32>) -> (NodeId, usize) {
        let (mut node, mut found) = (NodeId::ROOT, 0);
        for key in keys {
            let Some(next) = self.children(node).find(|&child| name_key(self.text(child)) == key) else {
                break;
            };
            (node, found) = (next, found + 1);
        }
        (node, found)
    }

    fn expand(&mut self, at: usize) {
        let range = self.nodes[at].start as usize..self.nodes[at].end as usize;
        let (mut groups, own) = self.step_all(range.clone());
        for group in &groups {
            self.groups_by_name[group.name as usize] = NONE;
        }
        let (frames, profile) = (&self.frames, &*self.profile);
        groups.sort_by(|a, b| {
            let text = |group: &Group| frames.text(profile, NameId(group.name));
            b.value.weight().cmp(&a.value.weight()).then_with(|| text(a).cmp(text(b)))
        });
        self.sort_entries(range.clone(), &mut groups);
        self.add_children(at, range.start as u32, &groups);
        self.nodes[at].own = own;
    }

    /// Reads the next frame of every stack in `range`, and sums the weight of each name.
    fn step_all(&mut self, range: Range<usize>) -> (Vec<Group>, Value) {
        let mut groups: Vec<Group> = Vec::new();
        let mut own = Value::default();
        let (profile, frames) = (&*self.profile, &*self.frames);
        for entry in &mut self.entries[range] {
            if entry.used as usize == AHEAD {
                read_ahead(profile, frames, self.direction, self.folded, entry);
            }
            let name = entry.ahead[entry.used as usize];
            entry.used += 1;
            if name == NONE {
                own += entry.value();
                continue;
            }
            let slot = &mut self.groups_by_name[name as usize];
            if *slot == NONE {
                *slot = groups.len() as u32;
                groups.push(Group { name, count: 0, next: 0, value: Value::default() });
            }
            let group = &mut groups[*slot as usize];
            group.count += 1;
            group.value += entry.value();
        }
        (groups, own)
    }

    /// Groups the entries in the order of `groups`, with ended stacks last.
    fn sort_entries(&mut self, range: Range<usize>, groups: &mut [Group]) {
        let moved_nowhere = match groups {
            [] => true,
            [only] => only.count as usize == range.len(),
            _ => false,
        };
        if moved_nowhere {
            return;
        }
        let mut next = 0;
        for (at, group) in groups.iter_mut().enumerate() {
            group.next = next;
            next += group.count;
            self.groups_by_name[group.name as usize] = at as u32;
        }
        // In place: each entry is swapped to the next position of its group, so a million stacks need no second copy.
        let entries = &mut self.entries[range];
        let (mut ended, mut end) = (next, 0);
        for at in 0..groups.len() {
            end += groups[at].count;
            while groups[at].next < end {
                let here = groups[at].next as usize;
                let owner = match entries[here].name() {
                    NONE => None,
                    name => Some(self.groups_by_name[name as usize] as usize),
                };
                let place = owner.map_or(&mut ended, |owner| &mut groups[owner].next);
                entries.swap(here, *place as usize);
                *place += 1;
            }
        }
        for group in groups {
            self.groups_by_name[group.name as usize] = NONE;
        }
    }

    fn add_children(&mut self, at: usize, mut start: u32, groups: &[Group]) {
        let (depth, mut x) = (self.nodes[at].depth + 1, self.nodes[at].x);
        let first_child = u32::try_from(self.nodes.len()).expect("a tree holds fewer than 2^32 nodes");
        for group in groups {
            let end = start + group.count;
            self.nodes.push(TreeNode {
                parent: at as u32,
                name: group.name,
                depth,
                first_child: NONE,
                child_count: 0,
                start,
                end,
                x,
                value: group.value,
                own: Value::default(),
            });
            x = x.saturating_add(group.value.weight());
            start = end;
        }
        let node = &mut self.nodes[at];
        (node.first_child, node.child_count) = (first_child, groups.len() as u32);
    }
}

/// Reads the next frames of a stack; consecutive frames called `folded` become one. The stack's end is followed by
/// [`NONE`]s; no cursor steps past the first.
fn read_ahead(
    profile: &Profile,
    frames: &Frames,
    direction: Direction,
    folded: u32,
    entry: &mut StackCursor,
) {
    let locations = profile.stack(StackId::from_index(entry.stack as usize));
    let mut last = entry.ahead[AHEAD - 1];
    for at in 0..AHEAD {
        loop {
            let name = match direction {
                Direction::Callees => step_to_leaf(frames, locations, entry),
                Direction::Callers => step_to_root(frames, locations, entry),
            };
            entry.ahead[at] = name;
            if name != folded || name != last || name == NONE {
                break;
            }
        }
        last = entry.ahead[at];
    }
    entry.used = 0;
}

/// Returns the next frame towards the leaf. `location` counts the locations not yet entered (so it is the index of
/// the current one), `line` the frames left in the current one.
#[inline]
fn step_to_leaf(frames: &Frames, locations: &[LocationId], entry: &mut StackCursor) -> u32 {
    if entry.line == 0 {
        if entry.location == 0 {
            return NONE;
        }
        entry.location -= 1;
        if let Some(name) = frames.only(locations[entry.location as usize]) {
            return name;
        }
        entry.line = frames.raw(locations[entry.location as usize]).len() as u32;
    }
    entry.line -= 1;
    frames.raw(locations[entry.location as usize])[entry.line as usize]
}

/// Returns the next frame towards the root; `location` and `line` identify the next frame to read.
#[inline]
fn step_to_root(frames: &Frames, locations: &[LocationId], entry: &mut StackCursor) -> u32 {
    while let Some(&location) = locations.get(entry.location as usize) {
        if let Some(&name) = frames.raw(location).get(entry.line as usize) {
            entry.line += 1;
            return name;
        }
        entry.location += 1;
        entry.line = 0;
    }
    NONE
}

/// Returns for each location whether one of its frames is `name`.
fn frames_named(profile: &Profile, frames: &Frames, name: NameId) -> Vec<bool> {
    (0..profile.locations().len())
        .map(|index| frames.raw(LocationId::from_index(index)).contains(&name.0))
        .collect()
}

/// Returns a short number for a name, the same in every profile and every run, used for the steps of a zoom path in a
/// URL.
pub fn name_key(name: &str) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in name.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}
