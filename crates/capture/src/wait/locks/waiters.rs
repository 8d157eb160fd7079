//! The threads that wait now, so that whoever wakes one can leave its stack with it.

use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::super::delays::StackNumber;
use crate::tables::{memory, mix};

/// How many waiters there can be at a time; further ones are counted without their releaser.
const SLOTS: usize = 4096;

/// A waiter is in one of this many slots, beginning at the one that its address decides.
const WINDOW: usize = 64;

/// The slot's owner is writing to it.
const RESERVED: u64 = 1;

/// The slots, column by column, so that a search reads few cache lines.
struct Waiters {
    /// The address that is waited for; 0 while the slot is free.
    addresses: &'static [AtomicU64],
    /// Since when, on the monotonic clock.
    since: &'static [AtomicU64],
    /// How long the wait must last for its stacks to be kept.
    thresholds: &'static [AtomicU64],
    /// How often the slot was used, and the number of the stack that wakes its owner.
    releasers: &'static [AtomicU64],
}

static WAITERS: AtomicPtr<Waiters> = AtomicPtr::new(std::ptr::null_mut());
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Makes the slots.
pub(super) fn prepare() -> io::Result<()> {
    let column = || memory::private_words(SLOTS);
    let made =
        Waiters { addresses: column()?, since: column()?, thresholds: column()?, releasers: column()? };
    let made = Box::into_raw(Box::new(made));
    let first = WAITERS.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // SAFETY: another thread was faster, and nobody else knows this one.
        drop(unsafe { Box::from_raw(made) });
    }
    Ok(())
}

fn waiters() -> Option<&'static Waiters> {
    // SAFETY: null, or from a box that is never freed.
    unsafe { WAITERS.load(Ordering::Acquire).as_ref() }
}

/// In the child of a fork: the other threads, which waited, do not exist there.
pub(super) fn forget_all() {
    WAITING.store(0, Ordering::Relaxed);
    if let Some(waiters) = waiters() {
        waiters.addresses.iter().for_each(|address| address.store(0, Ordering::Relaxed));
    }
}

/// A waiter's slot.
pub(super) struct Published(usize);

/// Publishes that this thread waits for `address`. `None` when there is no room.
pub(super) fn publish(address: usize, since: u64, threshold: u64) -> Option<Published> {
    let waiters = waiters()?;
    let is_free = |slot: &usize| {
        let address = &waiters.addresses[*slot];
        address.load(Ordering::Relaxed) == 0
            && address.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let slot = window(address).find(is_free)?;
    waiters.since[slot].store(since, Ordering::Relaxed);
    waiters.thresholds[slot].store(threshold, Ordering::Relaxed);
    let uses = waiters.releasers[slot].load(Ordering::Relaxed) >> 32;
    waiters.releasers[slot].store(uses.wrapping_add(1) << 32, Ordering::Release);
    waiters.addresses[slot].store(address as u64, Ordering::Release);
    WAITING.fetch_add(1, Ordering::Relaxed);
    Some(Published(slot))
}

impl Published {
    /// Takes the waiter off the list; returns the stack that woke it.
    pub(super) fn withdraw(self) -> StackNumber {
        let Some(waiters) = waiters() else { return StackNumber::NONE };
        let releaser = waiters.releasers[self.0].load(Ordering::Acquire) as u32;
        waiters.addresses[self.0].store(0, Ordering::Release);
        // A child forgets the waiters of its parent.
        let fewer = |waiting: usize| waiting.checked_sub(1);
        let _ = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        StackNumber::from_raw(releaser)
    }
}

/// Returns whether any thread waits.
#[inline]
pub(super) fn are_there() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// Leaves a stack with the waiters for `address` that are about to be woken: the one that has waited longest, or all.
/// Only with those that have waited long enough, and only if there are any is the `stack` made.
pub(super) fn mark(address: usize, all: bool, now: impl Fn() -> u64, stack: impl Fn() -> StackNumber) {
    let Some(waiters) = waiters() else { return };
    let is_here = |slot: &usize| waiters.addresses[*slot].load(Ordering::Acquire) == address as u64;
    let mut known = None;
    let mut leave = |slot: usize| {
        let before = waiters.releasers[slot].load(Ordering::Acquire);
        let waited = now().saturating_sub(waiters.since[slot].load(Ordering::Relaxed));
        if waited <= waiters.thresholds[slot].load(Ordering::Relaxed) || !is_here(&slot) {
            return;
        }
        let stack = *known.get_or_insert_with(&stack);
        let marked = before & !0xffff_ffff | u64::from(stack.raw());
        // If the slot belongs to another waiter by now, its number of uses has changed.
        let _ = waiters.releasers[slot].compare_exchange(before, marked, Ordering::AcqRel, Ordering::Relaxed);
    };
    if all {
        return window(address).filter(is_here).for_each(leave);
    }
    let oldest =
        window(address).filter(is_here).min_by_key(|&slot| waiters.since[slot].load(Ordering::Relaxed));
    if let Some(slot) = oldest {
        leave(slot);
    }
}

fn window(address: usize) -> impl Iterator<Item = usize> {
    let first = mix(address as u64) as usize;
    (0..WINDOW).map(move |step| first.wrapping_add(step) % SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(raw: u32) -> StackNumber {
        StackNumber::from_raw(raw)
    }

    /// Addresses that no real lock has, so that the other tests do not meet them.
    const HERE: usize = 0x10;

    #[test]
    fn the_oldest_waiter_gets_the_stack_and_all_of_them_if_all_are_woken() {
        prepare().expect("memory");
        let first = publish(HERE, 100, 10).expect("room");
        let second = publish(HERE, 200, 10).expect("room");
        let other = publish(HERE + 1, 50, 10).expect("room");
        assert!(are_there());
        mark(HERE, false, || 1000, || number(7));
        assert_eq!((first.withdraw(), second.withdraw()), (number(7), StackNumber::NONE));
        let (first, second) = (publish(HERE, 300, 10).expect("room"), publish(HERE, 400, 10).expect("room"));
        mark(HERE, true, || 1000, || number(8));
        assert_eq!((first.withdraw(), second.withdraw()), (number(8), number(8)));
        assert_eq!(other.withdraw(), StackNumber::NONE);
        // What was left with a waiter is not the next one's.
        assert_eq!(publish(HERE, 500, 10).expect("room").withdraw(), StackNumber::NONE);
    }

    #[test]
    fn a_wait_that_is_too_short_costs_no_stack() {
        prepare().expect("memory");
        let waiter = publish(HERE + 2, 100, 50).expect("room");
        mark(HERE + 2, false, || 150, || panic!("not needed"));
        assert_eq!(waiter.withdraw(), StackNumber::NONE);
    }

    #[test]
    fn waiters_beyond_the_window_are_refused() {
        prepare().expect("memory");
        let held: Vec<_> = (0..WINDOW).map_while(|_| publish(HERE + 3, 1, 1)).collect();
        assert!(held.len() > WINDOW / 2 && publish(HERE + 3, 1, 1).is_none());
        for waiter in held {
            waiter.withdraw();
        }
        assert!(publish(HERE + 3, 1, 1).map(Published::withdraw).is_some());
    }
}
