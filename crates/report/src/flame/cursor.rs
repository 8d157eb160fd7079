//! How far the tree has walked along a stack, and the next box on the way.

use flamelet_profile::{LocationId, Profile, StackId};

use super::folding::{Folding, chain_key, name_key, path_step};
use crate::names::package_name;
use crate::stacks::{Chains, FramePlace, Frames, OwnerId, Value, ValuePart};

/// No box: the end of a stack.
pub(super) const NONE: u32 = u32::MAX;

/// Which way stacks are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the thread's start to the sampled function: the usual flame graph.
    #[default]
    Callees,
    /// From the sampled function to the thread's start: the inverted graph.
    Callers,
}

/// How many frames a cursor reads ahead. Stacks lie far apart in memory, so one visit reads several; and a cursor is as
/// large as a cache line.
const AHEAD: usize = 7;

/// Marks a frame that is read ahead and belongs to a chain.
const IN_CHAIN: u32 = 1 << 31;

/// One stack and how far the tree has walked along it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackCursor {
    value: i64,
    stack: u32,
    /// The box that the last step reached, [`NONE`] after the last one.
    pub(super) slot: u32,
    /// From here on, towards the root, frames belong to chains.
    chains_from: FramePlace,
    location: u32,
    line: u32,
    /// The next frames, [`NONE`] after the last.
    ahead: [u32; AHEAD],
    /// How many of `ahead` have been used up.
    used: u8,
    is_base: bool,
    /// The current chain was opened: each of its frames is a box.
    is_open: bool,
}

impl StackCursor {
    /// Creates a cursor at a location and line; see [`step_to_leaf`] and [`step_to_root`].
    pub(super) fn new(
        stack: StackId,
        part: ValuePart,
        (location, line): (usize, usize),
        chains_from: FramePlace,
    ) -> Self {
        Self {
            value: part.value,
            stack: stack.index() as u32,
            slot: NONE,
            chains_from,
            location: location as u32,
            line: line as u32,
            ahead: [NONE; AHEAD],
            used: AHEAD as u8,
            is_base: part.is_base,
            is_open: false,
        }
    }

    pub(super) fn stack(&self) -> StackId {
        StackId::from_index(self.stack as usize)
    }

    /// Returns a cursor into the same stack that has not moved yet.
    pub(super) fn restarted(&self, start: (usize, usize)) -> Self {
        let part = ValuePart { value: self.value, is_base: self.is_base };
        Self::new(self.stack(), part, start, self.chains_from)
    }

    pub(super) fn value(&self) -> Value {
        ValuePart { value: self.value, is_base: self.is_base }.into()
    }
}

/// Reads stacks box by box. A box is known by its slot: a row of the frames' names with their owners or, after those,
/// the owner of a chain.
pub(super) struct StackReader {
    direction: Direction,
    chains: Chains,
    folding: Folding,
    /// The first slot of a chain.
    first_chain: u32,
    slot_count: usize,
}

impl StackReader {
    pub(super) fn new(profile: &Profile, frames: &Frames, direction: Direction, folding: &Folding) -> Self {
        let names = frames.owned_names().len();
        let first_chain = u32::try_from(names).expect("a profile holds fewer than 2^31 names");
        let chains = if folding.is_on() { Chains::of(profile, frames) } else { Chains::default() };
        let slot_count = names + frames.owner_count();
        Self { direction, chains, folding: folding.clone(), first_chain, slot_count }
    }

    pub(super) fn byte_size(&self) -> usize {
        self.chains.byte_size()
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Returns the owner of a chain; `None` if the box is a frame.
    pub(super) fn chain_owner(&self, slot: u32) -> Option<OwnerId> {
        let owner = slot.checked_sub(self.first_chain)?;
        Some(OwnerId::from_index(owner as usize))
    }

    /// Returns what boxes of the same weight are sorted by.
    pub(super) fn text<'a>(&self, profile: &'a Profile, frames: &'a Frames, slot: u32) -> &'a str {
        match self.chain_owner(slot) {
            Some(owner) => package_name(frames.owner_at(owner)),
            None => frames.text(profile, frames.owned(slot).name),
        }
    }

    /// Returns the step of a path that leads to a box.
    pub(super) fn key(&self, profile: &Profile, frames: &Frames, slot: u32) -> u32 {
        match self.chain_owner(slot) {
            Some(owner) => chain_key(frames.owner_at(owner)),
            None => name_key(frames.text(profile, frames.owned(slot).name)),
        }
    }

    /// Returns where the chains of a stack start.
    pub(super) fn start(&self, frames: &Frames, stack: &[LocationId]) -> FramePlace {
        self.chains.start(frames, stack)
    }

    /// Goes one box further; the cursor has its slot then. Returns how many frames the box stands for. No cursor steps
    /// past the end.
    pub(super) fn step(
        &self,
        profile: &Profile,
        frames: &Frames,
        cursor: &mut StackCursor,
        path: u64,
    ) -> u32 {
        let next = self.peek(profile, frames, cursor);
        if next == NONE || next & IN_CHAIN == 0 {
            cursor.is_open = false;
        } else if !cursor.is_open {
            let before = *cursor;
            let (owner, count) = self.skip_chain(profile, frames, cursor);
            if count > 1 && !self.folding.is_open(path_step(path, chain_key(frames.owner_at(owner)))) {
                cursor.slot = self.first_chain + owner.index() as u32;
                return count;
            }
            // A single frame says more than a box that holds it.
            *cursor = before;
            cursor.is_open = true;
        }
        cursor.used += 1;
        cursor.slot = if next == NONE { NONE } else { next & !IN_CHAIN };
        1
    }

    /// Returns whether the chain that starts here has a frame for which `wanted` (by name) is true. The
    /// cursor is after that frame then.
    pub(super) fn chain_has(
        &self,
        profile: &Profile,
        frames: &Frames,
        cursor: &mut StackCursor,
        wanted: &[bool],
    ) -> bool {
        loop {
            let next = self.peek(profile, frames, cursor);
            if next == NONE || next & IN_CHAIN == 0 {
                return false;
            }
            if wanted[frames.owned(next & !IN_CHAIN).name.index()] {
                return true;
            }
            cursor.used += 1;
        }
    }

    /// Skips the frames of a chain. Returns its owner and how many they are.
    fn skip_chain(&self, profile: &Profile, frames: &Frames, cursor: &mut StackCursor) -> (OwnerId, u32) {
        let (mut owner, mut count) = (None, 0);
        loop {
            let next = self.peek(profile, frames, cursor);
            if next == NONE || next & IN_CHAIN == 0 {
                return (owner.unwrap_or(OwnerId::UNKNOWN), count);
            }
            let is_outside = self.direction == Direction::Callers;
            owner = Some(self.chains.named_by(owner, frames.owned(next & !IN_CHAIN).owner, is_outside));
            count += 1;
            cursor.used += 1;
        }
    }

    /// Returns the next frame, without going there.
    #[inline]
    fn peek(&self, profile: &Profile, frames: &Frames, cursor: &mut StackCursor) -> u32 {
        if cursor.used as usize == AHEAD {
            let locations = profile.stack(cursor.stack());
            for at in 0..AHEAD {
                cursor.ahead[at] = match self.direction {
                    Direction::Callees => self.step_to_leaf(frames, locations, cursor),
                    Direction::Callers => self.step_to_root(frames, locations, cursor),
                };
            }
            cursor.used = 0;
        }
        cursor.ahead[cursor.used as usize]
    }

    /// Returns the next frame towards the leaf. `location` counts the locations not yet entered (so it is the index of
    /// the current one), `line` the frames left in the current one.
    #[inline]
    fn step_to_leaf(&self, frames: &Frames, locations: &[LocationId], cursor: &mut StackCursor) -> u32 {
        if cursor.line == 0 {
            if cursor.location == 0 {
                return NONE;
            }
            cursor.location -= 1;
            if let Some(row) = frames.only(locations[cursor.location as usize]) {
                return self.marked(cursor, row);
            }
            cursor.line = frames.rows(locations[cursor.location as usize]).len() as u32;
        }
        cursor.line -= 1;
        self.marked(cursor, frames.rows(locations[cursor.location as usize])[cursor.line as usize])
    }

    /// Returns the next frame towards the root; `location` and `line` identify the next frame to read.
    #[inline]
    fn step_to_root(&self, frames: &Frames, locations: &[LocationId], cursor: &mut StackCursor) -> u32 {
        while let Some(&location) = locations.get(cursor.location as usize) {
            if let Some(&row) = frames.rows(location).get(cursor.line as usize) {
                let marked = self.marked(cursor, row);
                cursor.line += 1;
                return marked;
            }
            cursor.location += 1;
            cursor.line = 0;
        }
        NONE
    }

    /// Returns the frame at the cursor's place, marked if it belongs to a chain.
    #[inline]
    fn marked(&self, cursor: &StackCursor, row: u32) -> u32 {
        let place = FramePlace { location: cursor.location, line: cursor.line };
        if place >= cursor.chains_from && self.chains.can_fold(row) { row | IN_CHAIN } else { row }
    }
}
