//! Charges the cost of each stack to a group of frames: to that of the nearest frame of yours, or to that of the
//! innermost frame.

use std::num::Saturating;

use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::frames::{ChargedFrame, Frames, GroupId, PartId};
use super::{Group, GroupPart, Grouping, OWN_CODE, add};
use crate::report::Report;
use crate::stacks::walk::{OpenFrame, Visitor, walk};

/// Returns the groups of `report`, and how much of its total has no frame of yours.
pub(super) fn charged(report: &Report, grouping: Grouping, owners: &Owners) -> (Vec<Group>, i64) {
    let profile = &report.profile;
    let frames = Frames::of(profile, owners, grouping);
    let mut charges = Charges {
        frames: &frames,
        charges_yours: grouping.charges_yours(),
        is_heap: !profile.header.drop_frames.is_empty(),
        path: Vec::new(),
        groups: vec![GroupSums::default(); frames.groups.len()],
        parts: FxHashMap::default(),
        others: FxHashMap::default(),
    };
    walk(profile, &frames.table, frames.infos.len(), report.values_of_samples(), &mut charges);
    charges.rows()
}

/// The part that is a group's own code.
const OWN: PartId = PartId::MAX;
/// No group, or no owner.
const NONE: u32 = u32::MAX;

/// What the frames from the root to one of them say about a stack that ends there.
#[derive(Clone, Copy)]
struct Way {
    /// The group of the innermost frame of yours.
    yours: GroupId,
    /// What is done below that frame: the outermost activity, since that is what your code called.
    part: PartId,
    is_activity: bool,
    /// Memory is allocated below that frame.
    is_allocating: bool,
    /// The outermost owner that says more than that it is std or a system library.
    telling: PartId,
    /// The frame counts for its group's cumulative cost.
    is_counted: bool,
    /// … and the group does not occur further up.
    is_first: bool,
}

impl Way {
    const START: Self = Self {
        yours: NONE,
        part: OWN,
        is_activity: false,
        is_allocating: false,
        telling: NONE,
        is_counted: false,
        is_first: false,
    };

    /// `allocating` is the part that only allocators do, in a profile of memory: every stack of it ends in an allocator, which may
    /// be yours (with `#[global_allocator]`), and says nothing about who needed the memory.
    fn with(self, frame: &ChargedFrame, allocating: Option<PartId>) -> Self {
        let telling = if self.telling == NONE && frame.is_telling { frame.owner } else { self.telling };
        let is_in_allocator = self.yours != NONE && self.is_allocating;
        let is_counted = frame.is_yours && !is_in_allocator;
        if is_counted {
            let way = Self { yours: frame.group, part: OWN, is_activity: false, ..self };
            return Self { is_allocating: false, telling, is_counted, ..way };
        }
        let is_allocating = self.is_allocating || frame.is_activity && Some(frame.part) == allocating;
        let is_news = self.part == OWN || frame.is_activity && !self.is_activity;
        let part = if is_news { frame.part } else { self.part };
        let is_activity = self.is_activity || frame.is_activity;
        Self { part, is_activity, is_allocating, telling, is_counted, ..self }
    }
}

#[derive(Clone, Default)]
struct GroupSums {
    flat: i64,
    cum: i64,
    /// How many frames of the current stack belong to it.
    depth: u32,
    is_used: bool,
}

/// The sums over the stacks.
struct Charges<'f> {
    frames: &'f Frames,
    charges_yours: bool,
    is_heap: bool,
    path: Vec<Way>,
    groups: Vec<GroupSums>,
    parts: FxHashMap<(GroupId, PartId), i64>,
    /// What stacks without a frame of yours cost, by their owner and what is done in them.
    others: FxHashMap<(PartId, PartId), i64>,
}

impl Charges<'_> {
    fn info(&self, frame: &OpenFrame<Saturating<i64>>) -> ChargedFrame {
        self.frames.infos[frame.entry as usize]
    }

    fn charge(&mut self, group: GroupId, part: PartId, value: i64) {
        add(&mut self.groups[group as usize].flat, value);
        add(self.parts.entry((group, part)).or_default(), value);
    }

    fn rows(&self) -> (Vec<Group>, i64) {
        let mut parts: FxHashMap<GroupId, Vec<GroupPart>> = FxHashMap::default();
        for (&(group, part), &value) in &self.parts {
            parts.entry(group).or_default().push(self.part(part, value));
        }
        let mut others: FxHashMap<PartId, Vec<GroupPart>> = FxHashMap::default();
        for (&(owner, part), &value) in &self.others {
            others.entry(owner).or_default().push(self.part(part, value));
        }
        let group = |(id, sums): (usize, &GroupSums)| {
            let (name, owner) = self.frames.groups[id].clone();
            let parts = parts.remove(&(id as GroupId)).unwrap_or_default();
            Group { name, owner, flat: sums.flat, cum: sums.cum, parts: sorted(parts) }
        };
        let used = self.groups.iter().enumerate().filter(|(_, sums)| sums.is_used);
        let mut rows: Vec<Group> = used.map(group).collect();
        let mut without_yours = 0;
        for (owner, parts) in others {
            let flat = parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.value));
            add(&mut without_yours, flat);
            let owner = self.frames.parts.get(owner as usize).map_or("nothing", String::as_str);
            let name = format!("[not called by your code: {owner}]");
            rows.push(Group { name, owner: "", flat, cum: flat, parts: sorted(parts) });
        }
        (rows, without_yours)
    }

    fn part(&self, part: PartId, value: i64) -> GroupPart {
        let name = self.frames.parts.get(part as usize).map_or(OWN_CODE, String::as_str);
        GroupPart { name: name.to_owned(), value }
    }
}

/// Sorts parts, the largest first.
fn sorted(mut parts: Vec<GroupPart>) -> Vec<GroupPart> {
    parts.sort_by(|a, b| {
        b.value.unsigned_abs().cmp(&a.value.unsigned_abs()).then_with(|| a.name.cmp(&b.name))
    });
    parts
}

impl Visitor<Saturating<i64>> for Charges<'_> {
    fn enter(&mut self, _: &[OpenFrame<Saturating<i64>>], open: &OpenFrame<Saturating<i64>>, _: bool) {
        let frame = self.info(open);
        let allocating = self.is_heap.then_some(self.frames.allocating);
        let way = self.path.last().unwrap_or(&Way::START).with(&frame, allocating);
        let is_counted = way.is_counted || !self.charges_yours;
        let group = &mut self.groups[frame.group as usize];
        self.path.push(Way { is_counted, is_first: is_counted && group.depth == 0, ..way });
        if is_counted {
            group.depth += 1;
            group.is_used = true;
        }
    }

    fn end(&mut self, leaf: &OpenFrame<Saturating<i64>>, weight: Saturating<i64>) {
        let (frame, way) = (self.info(leaf), *self.path.last().unwrap_or(&Way::START));
        match way {
            _ if !self.charges_yours => self.charge(frame.group, OWN, weight.0),
            Way { yours: NONE, .. } => {
                let owner = if way.telling == NONE { frame.owner } else { way.telling };
                add(self.others.entry((owner, way.part)).or_default(), weight.0);
            }
            way => self.charge(way.yours, way.part, weight.0),
        }
    }

    fn end_empty(&mut self, weight: Saturating<i64>) {
        add(self.others.entry((NONE, OWN)).or_default(), weight.0);
    }

    fn leave(&mut self, open: &OpenFrame<Saturating<i64>>) {
        let frame = self.info(open);
        let Some(way) = self.path.pop() else { return };
        if way.is_counted {
            let group = &mut self.groups[frame.group as usize];
            group.depth -= 1;
            if way.is_first {
                add(&mut group.cum, open.weight.0);
            }
        }
    }
}
