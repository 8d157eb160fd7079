//! What happens to a sampled block: it is counted where it was allocated, and found again when it is freed.

use super::interval::Weight;
use super::ledger::{Capacity, EndKey, Field, Ledger, MAX_FRAMES, Reason, RecordId, SiteKey};
use super::lifetime::Lifetime;
use super::live::{LiveBlock, LiveTable};
use super::thread::{self, Inside};
use super::{context, emergency, watch};
use crate::clock;
use flamelet_unwind::live;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The allocator's own frames on top of every stack: the function in this module, and the slow path that called it.
const OWN_FRAMES: usize = 2;

static TRACKER: AtomicPtr<Tracker> = AtomicPtr::new(std::ptr::null_mut());

/// The tables, made once and never freed: sampled blocks must be found forever.
pub(super) struct Tracker {
    pub(super) ledger: Ledger,
    pub(super) live: LiveTable,
    /// Whether the stacks of frees are kept.
    pub(super) keeps_ends: AtomicBool,
}

/// Returns the tables, if heap profiling was ever started.
#[inline]
pub(super) fn tracker() -> Option<&'static Tracker> {
    // SAFETY: the pointer is null or that of a tracker that lives as long as the process.
    unsafe { TRACKER.load(Ordering::Acquire).as_ref() }
}

/// Makes the tables, unless they already exist. One thread at a time.
pub(super) fn install(
    capacity: Capacity,
    live: usize,
    mirror: Option<&File>,
) -> io::Result<&'static Tracker> {
    if let Some(tracker) = tracker() {
        return Ok(tracker);
    }
    let made = Tracker {
        ledger: Ledger::new(capacity, mirror)?,
        live: LiveTable::new(live)?,
        keeps_ends: AtomicBool::new(true),
    };
    let tracker: &'static Tracker = Box::leak(Box::new(made));
    TRACKER.store(std::ptr::from_ref(tracker).cast_mut(), Ordering::Release);
    Ok(tracker)
}

/// In the child of a fork: leaves the file to the parent; the tables were copied with its memory and stay usable.
pub(super) fn leave_file_to_parent() {
    if let Some(tracker) = tracker() {
        tracker.ledger.drop_mirror();
        tracker.ledger.set(Field::Pid, u64::from(std::process::id()));
    }
}

/// Tracks a block that was just allocated; returns `false` when there is no room for it.
#[cold]
#[inline(never)]
pub(super) fn allocated(address: usize, size: usize, mean: u64) -> bool {
    let Some(tracker) = tracker() else { return false };
    let Some(_inside) = Inside::enter_first() else { return false };
    let mut frames = [0; MAX_FRAMES];
    let unwound = live::unwind_here(&mut frames);
    if !unwound.end.is_rooted() {
        tracker.ledger.count(Field::Truncated, 1);
    }
    let frames = &frames[OWN_FRAMES.min(unwound.depth)..unwound.depth];
    tracker.track(address, size, Weight::of(size, mean), frames)
}

impl Tracker {
    /// Tracks a block that was allocated at the stack `frames`; returns `false` when there is no room for it.
    pub(super) fn track(&self, address: usize, size: usize, weight: Weight, frames: &[u64]) -> bool {
        let ledger = &self.ledger;
        let frames = &frames[..frames.len().min(MAX_FRAMES)];
        let (stack, context) = (ledger.stack(frames), context::current(ledger));
        let Some(site) = ledger.site(SiteKey { stack, context, size }) else {
            ledger.count(Field::Lost, 1);
            ledger.publish_header();
            return false;
        };
        let (thread, position) = thread::position();
        let (now, resets) = (clock::monotonic_nanos(), ledger.get(Field::Resets) as u32);
        let block = LiveBlock { site, weight, born: now, thread, position, resets };
        // Counted first: a copy that is made in between has one object too many, not a negative number.
        ledger.count(Field::Samples, 1);
        ledger.allocated(site, weight, now);
        let is_tracked = self.live.insert(address, &block);
        if !is_tracked {
            // Its free will not be noticed: better gone at once than alive forever.
            ledger.freed(site, weight);
            ledger.count(Field::Lost, 1);
        }
        ledger.changed(now, site, None);
        watch::after_sample(ledger, weight.bytes, size);
        is_tracked
    }
}

pub(super) fn is_tracked(address: usize) -> bool {
    tracker().is_some_and(|tracker| tracker.live.contains(address))
}

/// Stops tracking a block that is about to be freed; returns `false` when it was not tracked.
#[inline(always)]
pub(super) fn freed(address: usize) -> bool {
    let taken = take(address);
    if let Some((tracker, block)) = &taken {
        ended(tracker, block);
    }
    taken.is_some()
}

/// Stops tracking a block without counting it as freed yet: it may turn out to stay.
pub(super) fn take(address: usize) -> Option<(&'static Tracker, LiveBlock)> {
    let tracker = tracker()?;
    let block = tracker.live.remove(address)?;
    Some((tracker, block))
}

/// Counts a block that [`take`] returned as freed here.
#[cold]
#[inline(never)]
pub(super) fn ended(tracker: &Tracker, block: &LiveBlock) {
    let ledger = &tracker.ledger;
    if block.resets != ledger.get(Field::Resets) as u32 {
        return;
    }
    ledger.freed(block.site, block.weight);
    let now = clock::monotonic_nanos();
    let age = now.saturating_sub(block.born);
    let is_temporary = thread::position() == (block.thread, block.position);
    let class = Lifetime::of(age, is_temporary) as u8;
    let mut stack = RecordId::NONE;
    if tracker.keeps_ends.load(Ordering::Relaxed)
        && let Some(_inside) = Inside::enter_first()
    {
        let mut frames = [0; MAX_FRAMES];
        let unwound = live::unwind_here(&mut frames);
        stack = ledger.stack(&frames[OWN_FRAMES.min(unwound.depth)..unwound.depth]);
    }
    let end = ledger.ended(EndKey { site: block.site, stack, class }, block.weight);
    ledger.changed(now, block.site, end);
}

/// Writes the emergency file when the inner allocator had no `size` bytes, before the caller gets the error.
#[cold]
#[inline(never)]
pub(super) fn refused(size: usize) {
    let (Some(tracker), Some(_inside)) = (tracker(), Inside::enter_first()) else { return };
    if !watch::is_refusal_new(clock::monotonic_nanos()) {
        return;
    }
    let mut frames = [0; 128];
    let unwound = live::unwind_here(&mut frames);
    let stack = tracker.ledger.stack(&frames[1.min(unwound.depth)..unwound.depth]);
    emergency::write(&tracker.ledger, Reason::Refused, size as u64, stack);
}
