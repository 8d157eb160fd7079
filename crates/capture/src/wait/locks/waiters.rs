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
    /// When its wait began, on the monotonic clock.
    since: &'static [AtomicU64],
    /// How long the wait must last for its stacks to be kept.
    thresholds: &'static [AtomicU64],
    /// How often the slot was used, and the number of the stack that wakes its owner.
    releasers: &'static [AtomicU64],
    /// The same for the stack that woke another waiter for the same address.
    others: &'static [AtomicU64],
}

static WAITERS: AtomicPtr<Waiters> = AtomicPtr::new(std::ptr::null_mut());
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Makes the slots.
pub(super) fn prepare() -> io::Result<()> {
    let column = || memory::private_words(SLOTS);
    let made = Waiters {
        addresses: column()?,
        since: column()?,
        thresholds: column()?,
        releasers: column()?,
        others: column()?,
    };
    let made = Box::into_raw(Box::new(made));
    let first = WAITERS.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // SAFETY: another thread was faster, and no other thread knows this one.
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

/// A waiter's slot. It has no destructor: a thread that is cancelled while it waits is unwound by the C library, which may
/// not run any. The slot of such a thread stays, until [`publish`] needs it.
pub(super) struct PublishedWaiter {
    slot: usize,
    /// Which use of the slot it is.
    uses: u32,
}

/// Publishes that this thread waits for `address`. `None` when there is no room.
pub(super) fn publish(address: usize, since: u64, threshold: u64) -> Option<PublishedWaiter> {
    let waiters = waiters()?;
    let is_free = |slot: &usize| {
        let address = &waiters.addresses[*slot];
        address.load(Ordering::Relaxed) == 0
            && address.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let free = window(address).find(is_free);
    let slot = free.or_else(|| window(address).find(|&slot| waiters.take_over(slot)))?;
    waiters.since[slot].store(since, Ordering::Relaxed);
    waiters.thresholds[slot].store(threshold, Ordering::Relaxed);
    let uses = uses_of(waiters.releasers[slot].load(Ordering::Relaxed)).wrapping_add(1);
    waiters.releasers[slot].store(u64::from(uses) << 32, Ordering::Release);
    waiters.addresses[slot].store(address as u64, Ordering::Release);
    if free.is_some() {
        WAITING.fetch_add(1, Ordering::Relaxed);
    }
    Some(PublishedWaiter { slot, uses })
}

impl Waiters {
    /// Takes the slot of a waiter that was woken and has not withdrawn: most likely it was cancelled. If not, it finds that the
    /// slot is not its own any more.
    fn take_over(&self, slot: usize) -> bool {
        let before = self.releasers[slot].load(Ordering::Acquire);
        let is_marked = before as u32 != StackNumber::NONE.raw();
        let address = self.addresses[slot].load(Ordering::Relaxed);
        is_marked && address > RESERVED && self.end_use(slot, before).is_some()
    }

    /// Ends the use of a slot that has this word, and returns the stack in it; `None` if it has another one by now.
    fn end_use(&self, slot: usize, word: u64) -> Option<StackNumber> {
        let next = u64::from(uses_of(word).wrapping_add(1)) << 32;
        let ended = self.releasers[slot].compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed);
        ended.is_ok().then_some(StackNumber::from_raw(word as u32))
    }
}

/// Returns how often a slot was used, which is the upper half of its word.
fn uses_of(word: u64) -> u32 {
    (word >> 32) as u32
}

impl PublishedWaiter {
    /// Takes the waiter off the list; returns the stacks that woke it.
    pub(super) fn withdraw(self) -> Wakers {
        let Some(waiters) = waiters() else { return Wakers::default() };
        loop {
            let word = waiters.releasers[self.slot].load(Ordering::Acquire);
            if uses_of(word) != self.uses {
                // Another waiter has taken it over.
                return Wakers::default();
            }
            let other = waiters.others[self.slot].load(Ordering::Relaxed);
            // Otherwise it was marked at this very moment.
            if let Some(own) = waiters.end_use(self.slot, word) {
                waiters.addresses[self.slot].store(0, Ordering::Release);
                // A child forgets the waiters of its parent.
                let fewer = |waiting: usize| waiting.checked_sub(1);
                let _ = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
                let other = if uses_of(other) == self.uses { other as u32 } else { 0 };
                return Wakers { own, other: StackNumber::from_raw(other) };
            }
        }
    }
}

/// The stacks that ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wakers {
    /// The one that woke this waiter.
    pub(super) own: StackNumber,
    /// The last one that woke another waiter for the same address, meanwhile.
    pub(super) other: StackNumber,
}

/// Returns whether any thread waits.
#[inline]
pub(super) fn are_there() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// Leaves a stack with the waiters for `address` that are about to be woken: the one that has waited longest and has no stack
/// yet, or all.
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
    let is_marked =
        |slot: usize| waiters.releasers[slot].load(Ordering::Relaxed) as u32 != StackNumber::NONE.raw();
    let oldest = window(address)
        .filter(|slot| is_here(slot) && !is_marked(*slot))
        .min_by_key(|&slot| waiters.since[slot].load(Ordering::Relaxed));
    if let Some(slot) = oldest {
        leave(slot);
        if let Some(stack) = known {
            window(address).filter(|other| is_here(other) && *other != slot).for_each(|other| {
                let uses = waiters.releasers[other].load(Ordering::Relaxed) & !0xffff_ffff;
                waiters.others[other].store(uses | u64::from(stack.raw()), Ordering::Relaxed);
            });
        }
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
        assert_eq!((first.withdraw().own, second.withdraw().own), (number(7), StackNumber::NONE));
        let (first, second) = (publish(HERE, 300, 10).expect("room"), publish(HERE, 400, 10).expect("room"));
        mark(HERE, true, || 1000, || number(8));
        assert_eq!((first.withdraw().own, second.withdraw().own), (number(8), number(8)));
        assert_eq!(other.withdraw().own, StackNumber::NONE);
        // What was left with a waiter is not the next one's.
        assert_eq!(publish(HERE, 500, 10).expect("room").withdraw().own, StackNumber::NONE);
    }

    #[test]
    fn a_waiter_knows_who_woke_another_one_while_it_waited() {
        const SHARED: usize = HERE + 5;
        prepare().expect("memory");
        let [first, second] = [100, 200].map(|since| publish(SHARED, since, 10).expect("room"));
        let elsewhere = publish(SHARED + 1, 100, 10).expect("room");
        mark(SHARED, false, || 1000, || number(7));
        assert_eq!(first.withdraw(), Wakers { own: number(7), other: StackNumber::NONE });
        assert_eq!(second.withdraw(), Wakers { own: StackNumber::NONE, other: number(7) });
        assert_eq!(elsewhere.withdraw(), Wakers::default());
        // Not the next waiters.
        let next = [100, 200].map(|since| publish(SHARED, since, 10).expect("room"));
        assert_eq!(next.map(PublishedWaiter::withdraw), [Wakers::default(); 2]);
    }

    #[test]
    fn a_wait_that_is_too_short_costs_no_stack() {
        prepare().expect("memory");
        let waiter = publish(HERE + 2, 100, 50).expect("room");
        mark(HERE + 2, false, || 150, || panic!("not needed"));
        assert_eq!(waiter.withdraw().own, StackNumber::NONE);
    }

    #[test]
    fn a_waiter_that_was_cancelled_is_woken_once_and_leaves_room() {
        const CANCELLED: usize = HERE + 4;
        prepare().expect("memory");
        let publish = |since| publish(CANCELLED, since, 10);
        let gone = publish(100).expect("room");
        let waiter = publish(200).expect("room");
        mark(CANCELLED, false, || 1000, || number(7));
        mark(CANCELLED, false, || 1000, || number(8));
        assert_eq!(waiter.withdraw().own, number(8), "the second wake is the living one's");
        // When there is no other room, its slot is taken.
        let mut held: Vec<_> = (0..WINDOW).map_while(|_| publish(300)).collect();
        assert!(publish(400).is_none(), "the others were not woken");
        let at = held.iter().position(|waiter| waiter.slot == gone.slot).expect("taken over");
        let next = held.swap_remove(at);
        assert_eq!(gone.withdraw().own, StackNumber::NONE, "the slot is not its own any more");
        mark(CANCELLED, true, || 1000, || number(6));
        assert_eq!(next.withdraw().own, number(6), "no other thread has ended its use");
        for waiter in held {
            waiter.withdraw();
        }
    }

    #[test]
    fn waiters_beyond_the_window_are_refused() {
        prepare().expect("memory");
        let held: Vec<_> = (0..WINDOW).map_while(|_| publish(HERE + 3, 1, 1)).collect();
        assert!(held.len() > WINDOW / 2 && publish(HERE + 3, 1, 1).is_none());
        for waiter in held {
            waiter.withdraw();
        }
        assert!(publish(HERE + 3, 1, 1).map(|waiter| waiter.withdraw().own).is_some());
    }
}
