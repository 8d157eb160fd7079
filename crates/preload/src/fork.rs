//! A forked child goes on for itself: with a tree of stacks of its own, and nothing counted yet.
//!
//! What its parent had allocated stays the parent's: the child forgets those blocks, and its frees of them count
//! nowhere. (Blocks of both would otherwise be counted twice in a profile of all processes.)

use crate::{blocks, file, start, thread, tree, walker};

pub(crate) fn start() {
    // SAFETY: the handler does only what may be done in a forked child: it writes to atomics.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

unsafe extern "C" fn in_child() {
    file::GROWING.put_back();
    tree::GROWING.put_back();
    thread::put_lock_back();
    walker::put_lock_back();
    start::note_fork();
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
