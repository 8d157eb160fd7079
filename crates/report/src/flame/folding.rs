//! Which chains of frames are drawn as one box, and the paths by which boxes are known.

use flamelet_symbol::owner::Owner;
use rustc_hash::FxHashSet;

use crate::names::package_name;

/// Whether chains of frames that are not yours are one box each: the default is that they are.
///
/// A chain is between a thread's start and your code, or between two functions of yours; it has at least two frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    is_off: bool,
    /// The paths of the chains that are open: each of their frames is a box.
    opened: FxHashSet<u64>,
}

impl Folding {
    /// Every frame is a box.
    pub fn off() -> Self {
        Self { is_off: true, opened: FxHashSet::default() }
    }

    /// Opens the chain to which these keys lead from the root; see [`FlameTree::key`](super::FlameTree::key).
    pub fn open(&mut self, keys: impl IntoIterator<Item = u32>) {
        self.opened.insert(keys.into_iter().fold(0, path_step));
    }

    pub(super) fn is_on(&self) -> bool {
        !self.is_off
    }

    pub(super) fn is_open(&self, path: u64) -> bool {
        !self.opened.is_empty() && self.opened.contains(&path)
    }
}

/// Returns a number for a path, given that of the path to the parent, 0 for the root.
pub(super) fn path_step(parent: u64, key: u32) -> u64 {
    (parent.rotate_left(5) ^ u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the step of a path that leads to a chain, which differs from that to a function of this name.
pub(super) fn chain_key(owner: &Owner) -> u32 {
    name_key(package_name(owner)).rotate_left(1)
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
