//! The tree of a flame graph, built only as far as it is viewed.
//!
//! A profile of a million stacks has some forty million boxes, but a screen can show only a few thousand. So the tree
//! starts as one node that owns all stacks, and expanding a node sorts *its* stacks by their next box: each child
//! then owns a contiguous range of them. A subtree too narrow to be visible is not expanded until someone zooms in
//! there. Nothing is ever lumped into an "other".
//!
//! ```text
//! entries  [ s7 s2 s9 s4 | s1 s8 | s3 | s5 s6 ]      one row per stack, with a cursor into it
//!            └─ child 0 ─┘ └─ 1 ─┘ └ 2┘ └ self ┘     children by weight, then the stacks that end here
//! ```
//!
//! A box is a frame, or a chain of frames that are not yours (see [`Folding`]).

mod holding;

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use flamelet_profile::{LocationId, Profile};

use super::cursor::{Direction, NONE, StackCursor, StackReader};
use super::folding::{Folding, path_step};
use crate::names::package_name;
use crate::stacks::{Frames, NameId, OwnerId, StackWeights, Value};

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

#[derive(Clone, Debug)]
struct TreeNode {
    parent: u32,
    /// What the box shows: see [`StackReader::slot_count`]; [`NONE`] for the root of all stacks.
    slot: u32,
    /// The fewest and the most frames that it stands for.
    frames: (u32, u32),
    /// The path to it, as [`path_step`] computes it.
    path: u64,
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
    reader: StackReader,
    /// The function in the middle of a sandwich.
    pivot: Option<NameId>,
    entries: Vec<StackCursor>,
    nodes: Vec<TreeNode>,
    /// For each slot its group in the current expansion, else [`NONE`].
    groups_by_slot: Vec<u32>,
}

/// A chain of frames that are not yours, drawn as one box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedChain {
    /// Whose frames these are, mostly.
    pub owner: OwnerId,
    /// The fewest and the most frames of the chains that the box stands for.
    pub frames: (u32, u32),
}

struct ChildGroup {
    slot: u32,
    count: u32,
    next: u32,
    value: Value,
    frames: (u32, u32),
}

impl<P: Deref<Target = Profile>> FlameTree<P> {
    /// Returns about how many bytes the tree takes, not counting its profile and its frames.
    pub fn byte_size(&self) -> usize {
        let Self { entries, nodes, groups_by_slot, reader, .. } = self;
        // Nodes are added as they are viewed, so there is spare capacity.
        let nodes = nodes.capacity() * size_of::<TreeNode>();
        size_of_val(&**entries) + nodes + size_of_val(&**groups_by_slot) + reader.byte_size()
    }

    /// Creates the tree of all stacks.
    pub fn new(
        profile: P,
        frames: Arc<Frames>,
        weights: &StackWeights,
        direction: Direction,
        folding: &Folding,
    ) -> Self {
        Self::of_stacks(profile, frames, weights, direction, folding, None)
    }

    /// Creates the tree of what `pivot` calls, or of what calls it: one half of a sandwich. A stack counts once, from
    /// its outermost call of `pivot`, so that both halves have the weight of the function.
    pub fn around(
        profile: P,
        frames: Arc<Frames>,
        weights: &StackWeights,
        direction: Direction,
        folding: &Folding,
        pivot: NameId,
    ) -> Self {
        Self::of_stacks(profile, frames, weights, direction, folding, Some(pivot))
    }

    fn of_stacks(
        profile: P,
        frames: Arc<Frames>,
        weights: &StackWeights,
        direction: Direction,
        folding: &Folding,
        pivot: Option<NameId>,
    ) -> Self {
        let reader = StackReader::new(&profile, &frames, direction, folding);
        let mut entries = Vec::with_capacity(if pivot.is_none() { weights.len() } else { 0 });
        for (stack, part) in weights.parts() {
            let locations = profile.stack(stack);
            let Some(start) = start_of(&frames, locations, pivot, direction) else { continue };
            entries.push(StackCursor::new(stack, part, start, reader.start(&frames, locations)));
        }
        let mut rows = frames.owned_names().iter();
        let slot = pivot.and_then(|pivot| rows.position(|owned| owned.name == pivot));
        let value = entries.iter().map(StackCursor::value).sum();
        let end = u32::try_from(entries.len()).expect("a profile holds fewer than 2^32 stacks");
        let root = TreeNode {
            parent: NONE,
            slot: slot.map_or(NONE, |row| row as u32),
            frames: (1, 1),
            path: 0,
            depth: 0,
            first_child: NONE,
            child_count: 0,
            start: 0,
            end,
            x: 0,
            value,
            own: Value::default(),
        };
        let groups_by_slot = vec![NONE; reader.slot_count()];
        Self { profile, frames, reader, pivot, entries, nodes: vec![root], groups_by_slot }
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

    /// Returns the node's name; `None` for the root of all stacks and for a chain.
    pub fn name(&self, node: NodeId) -> Option<NameId> {
        let slot = self.nodes[node.index()].slot;
        (slot != NONE && self.reader.chain_owner(slot).is_none()).then(|| self.frames.owned(slot).name)
    }

    /// Returns whose code the node is; `None` for the root of all stacks.
    pub fn owner(&self, node: NodeId) -> Option<OwnerId> {
        let slot = self.nodes[node.index()].slot;
        let own = || self.frames.owned(slot).owner;
        (slot != NONE).then(|| self.reader.chain_owner(slot).unwrap_or_else(own))
    }

    /// Returns the chain of frames that the node stands for, if it is one.
    pub fn chain(&self, node: NodeId) -> Option<FoldedChain> {
        let node = &self.nodes[node.index()];
        let owner = if node.slot == NONE { None } else { self.reader.chain_owner(node.slot) };
        owner.map(|owner| FoldedChain { owner, frames: node.frames })
    }

    /// Returns the text of the node: its name, `tokio · 31 frames` for a chain, `root` for the root of all stacks.
    pub fn text(&self, node: NodeId) -> Cow<'_, str> {
        match (self.chain(node), self.name(node)) {
            (Some(chain), _) => Cow::Owned(chain_text(&self.frames, chain)),
            (None, Some(name)) => Cow::Borrowed(self.frames.text(&self.profile, name)),
            (None, None) => Cow::Borrowed("root"),
        }
    }

    /// Returns the node's step in a path; see [`FlameTree::walk`].
    pub fn key(&self, node: NodeId) -> u32 {
        let slot = self.nodes[node.index()].slot;
        if slot == NONE { 0 } else { self.reader.key(&self.profile, &self.frames, slot) }
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

    /// Follows `keys` from the root, each the [`FlameTree::key`] of a child; returns the node reached and how many keys
    /// were found. A path with frames that no longer exist is followed as far as possible.
    pub fn walk(&mut self, keys: impl IntoIterator<Item = u32>) -> (NodeId, usize) {
        let (mut node, mut found) = (NodeId::ROOT, 0);
        for key in keys {
            let Some(next) = self.children(node).find(|&child| self.key(child) == key) else {
                break;
            };
            (node, found) = (next, found + 1);
        }
        (node, found)
    }

    fn expand(&mut self, at: usize) {
        let range = self.nodes[at].start as usize..self.nodes[at].end as usize;
        let (mut groups, own) = self.step_all(range.clone(), self.nodes[at].path);
        for group in &groups {
            self.groups_by_slot[group.slot as usize] = NONE;
        }
        groups.sort_by(|a, b| {
            let text = |group: &ChildGroup| self.reader.text(&self.profile, &self.frames, group.slot);
            b.value.weight().cmp(&a.value.weight()).then_with(|| text(a).cmp(text(b)))
        });
        self.sort_entries(range.clone(), &mut groups);
        self.add_children(at, range.start as u32, &groups);
        self.nodes[at].own = own;
    }

    /// Reads the next box of every stack in `range`, and sums the weight of each.
    fn step_all(&mut self, range: Range<usize>, path: u64) -> (Vec<ChildGroup>, Value) {
        let mut groups: Vec<ChildGroup> = Vec::new();
        let mut own = Value::default();
        let (profile, frames) = (&*self.profile, &*self.frames);
        for entry in &mut self.entries[range] {
            let length = self.reader.step(profile, frames, entry, path);
            if entry.slot == NONE {
                own += entry.value();
                continue;
            }
            let place = &mut self.groups_by_slot[entry.slot as usize];
            if *place == NONE {
                *place = groups.len() as u32;
                let slot = entry.slot;
                groups.push(ChildGroup {
                    slot,
                    count: 0,
                    next: 0,
                    value: Value::default(),
                    frames: (length, length),
                });
            }
            let group = &mut groups[*place as usize];
            group.count += 1;
            group.value += entry.value();
            group.frames = (group.frames.0.min(length), group.frames.1.max(length));
        }
        (groups, own)
    }

    /// Groups the entries in the order of `groups`, with ended stacks last.
    fn sort_entries(&mut self, range: Range<usize>, groups: &mut [ChildGroup]) {
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
            self.groups_by_slot[group.slot as usize] = at as u32;
        }
        // In place: each entry is swapped to the next position of its group, so a million stacks need no second copy.
        let entries = &mut self.entries[range];
        let (mut ended, mut end) = (next, 0);
        for at in 0..groups.len() {
            end += groups[at].count;
            while groups[at].next < end {
                let here = groups[at].next as usize;
                let owner = match entries[here].slot {
                    NONE => None,
                    slot => Some(self.groups_by_slot[slot as usize] as usize),
                };
                let place = owner.map_or(&mut ended, |owner| &mut groups[owner].next);
                entries.swap(here, *place as usize);
                *place += 1;
            }
        }
        for group in groups {
            self.groups_by_slot[group.slot as usize] = NONE;
        }
    }

    fn add_children(&mut self, at: usize, mut start: u32, groups: &[ChildGroup]) {
        let (depth, mut x) = (self.nodes[at].depth + 1, self.nodes[at].x);
        let path = self.nodes[at].path;
        let first_child = u32::try_from(self.nodes.len()).expect("a tree holds fewer than 2^32 nodes");
        for group in groups {
            let end = start + group.count;
            self.nodes.push(TreeNode {
                parent: at as u32,
                slot: group.slot,
                frames: group.frames,
                path: path_step(path, self.reader.key(&self.profile, &self.frames, group.slot)),
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

/// Returns `tokio · 31 frames`.
fn chain_text(frames: &Frames, chain: FoldedChain) -> String {
    let name = package_name(frames.owner_at(chain.owner));
    match chain.frames {
        (least, most) if least == most => format!("{name} · {most} frames"),
        (least, most) => format!("{name} · {least} to {most} frames"),
    }
}

/// Returns where to start reading a stack, see [`StackCursor::new`]: at its outer end, or next to its outermost call of
/// `pivot`. `None` for a stack without the pivot.
fn start_of(
    frames: &Frames,
    stack: &[LocationId],
    pivot: Option<NameId>,
    direction: Direction,
) -> Option<(usize, usize)> {
    let Some(pivot) = pivot else {
        return Some((if direction == Direction::Callees { stack.len() } else { 0 }, 0));
    };
    let at = stack.iter().rposition(|&location| frames.raw(location).contains(&pivot.0))?;
    let line = frames.raw(stack[at]).iter().rposition(|&name| name == pivot.0)?;
    Some(match direction {
        Direction::Callees => (at, line),
        Direction::Callers => (at, line + 1),
    })
}
