//! A forked child goes on for itself: with a tree of stacks of its own, and nothing counted yet.
//!
//! What its parent had allocated stays the parent's: the child forgets those blocks, and its frees of them count
//! nowhere. (Blocks of both would otherwise be counted twice in a profile of all processes.)

use crate::{blocks, file, thread, tree, walker};

/// In the child, before anything else.
pub(crate) fn reset_locks() {
    file::GROWING.reset_in_child();
    tree::GROWING.reset_in_child();
    thread::reset_in_child();
    walker::reset_in_child();
}

/// With the first call in the child.
pub(crate) fn settle() -> bool {
    let has_moved = file::move_to_own().is_ok();
    if has_moved {
        tree::forget();
        blocks::clear();
        thread::forget_nodes();
    }
    has_moved
}
