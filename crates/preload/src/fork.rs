//! A forked child continues on its own: with its own tree of stacks, and nothing counted yet.
//!
//! What its parent had allocated stays the parent's: the child forgets those blocks, and does not count its frees of
//! them. (Otherwise a profile of all processes would count such blocks twice.)

use crate::{blocks, file, thread, tree, walker};

/// Resets the locks, in the child, before anything else.
pub(crate) fn reset_locks() {
    file::GROWING.reset_in_child();
    tree::GROWING.reset_in_child();
    thread::reset_in_child();
    walker::reset_in_child();
}

/// Moves to files of its own, with the first call in the child.
pub(crate) fn settle() -> bool {
    let has_moved = file::move_to_own().is_ok();
    if has_moved {
        tree::forget();
        blocks::clear();
        thread::forget_nodes();
    }
    has_moved
}
