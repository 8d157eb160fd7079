//! Chains of frames that are not yours: what is between a thread's start and your code, and between your functions.
//!
//! ```text
//! clone3 · start_thread · std … · tokio …  │  shop::serve  │  serde_json …  │  shop::parse  │  memcpy
//! └──────────── one chain ────────────┘       yours          one chain         yours          called by yours
//! ```
//!
//! A chain ends at a frame of yours, so what your code calls and what does not come back to it is never part of one.
//! Where nothing is yours, the chain goes from the thread's start to the innermost frame of the async runtime.

use flamelet_profile::{LocationId, Profile};
use flamelet_symbol::owner::Owner;

use super::frames::{Frames, OwnerId};
use crate::names::is_glue;

/// The part that a frame plays in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It ends a chain, and everything outside of it belongs to chains.
    Yours,
    /// It belongs to chains.
    Others,
    /// It belongs to chains, and starts threads or tasks.
    Start,
    /// It ends a chain: its owner is unknown.
    Unknown,
}

/// Which frames belong to chains, worked out once for all names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    /// By the row of [`Frames::owned`].
    roles: Vec<Role>,
    /// Whether any of a location's frames is yours.
    has_yours: Vec<bool>,
    /// How much the name of each owner says about a chain.
    ranks: Vec<u8>,
    /// Whether there are chains at all.
    has_chains: bool,
}

/// A place in a stack: the index of a location and of a frame in it, both counted from the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FramePlace {
    pub(crate) location: u32,
    pub(crate) line: u32,
}

impl FramePlace {
    /// A place outside of every stack.
    pub(crate) const BEYOND: Self = Self { location: u32::MAX, line: u32::MAX };
}

/// A chain of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Whose frames these are, mostly: the outermost owner that is neither the standard library nor the system.
    pub(crate) owner: OwnerId,
    /// How many they are.
    pub(crate) frames: u32,
}

impl Chains {
    /// Finds the parts that the frames of `profile` play.
    pub(crate) fn of(profile: &Profile, frames: &Frames) -> Self {
        let roles: Vec<Role> = frames
            .owned_names()
            .iter()
            .map(|owned| {
                let (name, file) = (frames.text(profile, owned.name), frames.file(profile, owned.name));
                match frames.owner_at(owned.owner) {
                    Owner::Yours => Role::Yours,
                    Owner::Unknown => Role::Unknown,
                    Owner::Runtime(_) => Role::Start,
                    Owner::Std | Owner::System(_) if is_glue(name, file) => Role::Start,
                    _ => Role::Others,
                }
            })
            .collect();
        let locations = (0..profile.locations().len()).map(LocationId::from_index);
        let is_yours = |row: &u32| roles[*row as usize] == Role::Yours;
        let has_yours = locations.map(|id| frames.rows(id).iter().any(is_yours)).collect();
        let ranks =
            (0..frames.owner_count()).map(|at| rank(frames.owner_at(OwnerId::from_index(at)))).collect();
        let has_chains = roles.iter().any(|role| matches!(role, Role::Start | Role::Others));
        Self { roles, has_yours, ranks, has_chains }
    }

    pub(crate) fn byte_size(&self) -> usize {
        size_of_val(&*self.roles) + size_of_val(&*self.has_yours) + size_of_val(&*self.ranks)
    }

    /// Returns whether a frame belongs to chains where it is outside of [`Chains::start`].
    #[inline]
    pub(crate) fn can_fold(&self, row: u32) -> bool {
        matches!(self.roles[row as usize], Role::Others | Role::Start)
    }

    /// Returns the innermost place from which on, towards the root, frames belong to chains.
    pub(crate) fn start(&self, frames: &Frames, stack: &[LocationId]) -> FramePlace {
        if !self.has_chains {
            return FramePlace::BEYOND;
        }
        match stack.iter().position(|location| self.has_yours[location.index()]) {
            Some(location) => {
                let rows = frames.rows(stack[location]);
                let line = rows.iter().position(|&row| self.roles[row as usize] == Role::Yours);
                FramePlace { location: location as u32, line: line.unwrap_or(0) as u32 + 1 }
            }
            None => self.start_of_thread(frames, stack),
        }
    }

    /// Returns the innermost frame that starts threads or tasks, of those that are connected to the root.
    fn start_of_thread(&self, frames: &Frames, stack: &[LocationId]) -> FramePlace {
        let mut found = FramePlace::BEYOND;
        for (location, &id) in stack.iter().enumerate().rev() {
            for (line, &row) in frames.rows(id).iter().enumerate().rev() {
                match self.roles[row as usize] {
                    Role::Start => found = FramePlace { location: location as u32, line: line as u32 },
                    Role::Others => {}
                    Role::Yours | Role::Unknown => return found,
                }
            }
        }
        found
    }

    /// Returns the better name for a chain, of what is known so far and the owner of the next frame.
    pub(crate) fn named_by(&self, known: Option<OwnerId>, next: OwnerId, is_outside: bool) -> OwnerId {
        let rank = |owner: OwnerId| self.ranks[owner.index()];
        match known {
            Some(known) if rank(known) > rank(next) || (rank(known) == rank(next) && !is_outside) => known,
            _ => next,
        }
    }

    /// Writes the chain of each frame of a stack, leaf first, to `out`; `None` for frames that are in none.
    pub(crate) fn of_stack(&self, frames: &Frames, stack: &[LocationId], out: &mut Vec<Option<Chain>>) {
        out.clear();
        let start = self.start(frames, stack);
        let mut chain: Option<Chain> = None;
        for (location, &id) in stack.iter().enumerate() {
            for (line, &row) in frames.rows(id).iter().enumerate() {
                let place = FramePlace { location: location as u32, line: line as u32 };
                if place < start || !self.can_fold(row) {
                    finish(&mut chain, out);
                    out.push(None);
                    continue;
                }
                let owner = frames.owned(row).owner;
                chain = Some(Chain {
                    owner: self.named_by(chain.map(|chain| chain.owner), owner, true),
                    frames: chain.map_or(0, |chain| chain.frames) + 1,
                });
                out.push(None);
            }
        }
        finish(&mut chain, out);
    }
}

/// Marks the last frames of `out` as a chain. A single frame says more than a box that holds it.
fn finish(chain: &mut Option<Chain>, out: &mut [Option<Chain>]) {
    let Some(found) = chain.take().filter(|chain| chain.frames > 1) else { return };
    let first = out.len() - found.frames as usize;
    out[first..].fill(Some(found));
}

/// Returns how much an owner says about a chain that it is part of.
fn rank(owner: &Owner) -> u8 {
    match owner {
        Owner::Runtime(_) | Owner::Dependency(_) => 2,
        Owner::Std => 1,
        _ => 0,
    }
}
