//! jemalloc's experimental hooks. They are probed: a version without them reports an unknown name.
//!
//! jemalloc guards itself against re-entrance when it calls them, before it hands out the allocation or does the
//! free. Nothing here allocates.

use super::Feed;
use super::control::Control;
use super::refused;
use crate::Result;
use crate::heap::interval::Weight;
use crate::heap::thread::Inside;
use crate::heap::tracker;
use flamelet_unwind::live;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static MEAN: AtomicU64 = AtomicU64::new(0);
static TAKES_STACKS: AtomicBool = AtomicBool::new(false);

/// Installs the hooks that exist.
pub(super) fn install(control: Control) -> Result<Feed> {
    let hook = |name, function: *const c_void| match control.write(name, function) {
        Ok(()) => Ok(true),
        Err(libc::ENOENT) => Ok(false),
        Err(code) => Err(refused("a hook", code)),
    };
    let takes_stacks = hook(c"experimental.hooks.prof_backtrace", take_stack as *const c_void)?;
    TAKES_STACKS.store(takes_stacks, Ordering::Relaxed);
    // Frees first: a sample whose free is not seen would stay forever.
    let sees_frees = hook(c"experimental.hooks.prof_sample_free", freed as *const c_void)?;
    let sees_all = sees_frees && hook(c"experimental.hooks.prof_sample", sampled as *const c_void)?;
    Ok(if sees_all { Feed::Hooks } else { Feed::Dumps })
}

/// Sets what a sample stands for from now on.
pub(super) fn set_mean(mean: u64) {
    MEAN.store(mean, Ordering::Relaxed);
}

/// Returns whether the addresses in jemalloc's tables come from flamelet's unwinder.
pub(super) fn takes_stacks() -> bool {
    TAKES_STACKS.load(Ordering::Relaxed)
}

/// Fills in the stack for jemalloc.
unsafe extern "C" fn take_stack(frames: *mut *mut c_void, length: *mut c_uint, most: c_uint) {
    // SAFETY: jemalloc gives room for `most` pointers, which are as long as addresses on 64-bit machines.
    let frames = unsafe { std::slice::from_raw_parts_mut(frames.cast::<u64>(), most as usize) };
    let unwound = live::unwind_here(frames);
    // The first frame is this function.
    let depth = unwound.depth.saturating_sub(1);
    frames.copy_within(1.min(unwound.depth)..unwound.depth, 0);
    // SAFETY: jemalloc's own variable.
    unsafe { *length = depth as c_uint };
}

/// Called when jemalloc has sampled a block.
unsafe extern "C" fn sampled(
    block: *const c_void,
    size: usize,
    frames: *const *const c_void,
    length: c_uint,
    usable: usize,
) {
    let (Some(tracker), Some(_inside)) = (tracker::tracker(), Inside::enter_first()) else { return };
    // SAFETY: jemalloc's table holds that many addresses, and keeps them while the block lives.
    let frames = unsafe { std::slice::from_raw_parts(frames.cast::<u64>(), length as usize) };
    // jemalloc counts usable bytes. A version that does not report them leaves something else there.
    let counted = if (size..=size.saturating_mul(2).max(4096)).contains(&usable) { usable } else { size };
    let weight = Weight::found_as(counted, size, MEAN.load(Ordering::Relaxed));
    tracker.track(block as usize, size, weight, frames);
}

/// Called when a sampled block is about to be freed.
unsafe extern "C" fn freed(block: *const c_void, _usable: usize) {
    tracker::freed(block as usize);
}
