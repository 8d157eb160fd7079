//! The rules of frames that were seen before: one load instead of a search in the table.
//!
//! The same few thousand call sites make up nearly all stacks of a program. A slot is one word that holds the
//! address and its rule together, so that readers and writers on any thread, in any handler, see a whole pair
//! or another whole pair. The cache belongs to one list of modules and is dropped with it: it cannot be stale.

use crate::rule::Base;
use std::sync::atomic::{AtomicU64, Ordering};

/// 64 KB of slots: stays in a core's second-level cache.
const SLOT_BITS: u32 = 13;
/// The bits of a user-space address.
const ADDRESS_BITS: u32 = 48;

/// An ordinary frame: `CFA = base + offset`, and `saved` as the machine defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRule {
    pub(crate) base: Base,
    pub(crate) offset: u32,
    pub(crate) saved: u8,
}

/// A cache of rules, see the module's introduction. Without slots it remembers nothing.
#[derive(Debug, Default)]
pub(crate) struct RuleCache {
    slots: Vec<AtomicU64>,
}

/// A copy starts empty.
impl Clone for RuleCache {
    fn clone(&self) -> Self {
        if self.is_on() { Self::new() } else { Self::NONE }
    }
}

impl RuleCache {
    /// Stands where a rule would be, for the first frame of a thread.
    const ROOT: u64 = 1;

    /// A cache that remembers nothing.
    pub(crate) const NONE: Self = Self { slots: Vec::new() };

    pub(crate) fn new() -> Self {
        Self { slots: (0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns the slot of an address, and the tag that distinguishes it from others that share the slot.
    #[inline(always)]
    fn place(address: u64) -> (usize, u64) {
        // Not mixed, because every frame of a walk waits for the previous one, and in most frames this is the return
        // address as it is on the stack. The lower bits of call sites are as good as random.
        let key = address.wrapping_add(1);
        ((key & ((1 << SLOT_BITS) - 1)) as usize, key >> SLOT_BITS)
    }

    /// Returns the rule at `address`, if it is remembered. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn get(&self, address: u64) -> Option<FrameRule> {
        let (slot, tag) = Self::place(address);
        let word = self.slots.get(slot)?.load(Ordering::Relaxed);
        // A frame's offset is never 0: that is a slot that was never written, or the first frame of a thread.
        if word >> 24 != tag || word & 0xff_ff00 == 0 {
            return None;
        }
        let base = if word & 1 == 0 { Base::StackPointer } else { Base::FramePointer };
        Some(FrameRule { base, offset: (word >> 8 & 0xffff) as u32 * 8, saved: (word >> 1 & 0x3f) as u8 })
    }

    /// Remembers the rule of an ordinary frame. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn put(&self, address: u64, rule: FrameRule) {
        let (slot, tag) = Self::place(address);
        let Some(slot) = self.slots.get(slot) else { return };
        if address >> ADDRESS_BITS != 0 || rule.offset == 0 {
            return;
        }
        let base = u64::from(rule.base == Base::FramePointer);
        let packed = u64::from(rule.offset / 8) << 8 | u64::from(rule.saved) << 1 | base;
        slot.store(tag << 24 | packed, Ordering::Relaxed);
    }

    /// Returns whether the frame at `address` is remembered as the first of a thread. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn is_root(&self, address: u64) -> bool {
        let (slot, tag) = Self::place(address);
        self.slots.get(slot).is_some_and(|slot| slot.load(Ordering::Relaxed) == tag << 24 | Self::ROOT)
    }

    /// Remembers that the frame at `address` is the first of a thread. Async-signal-safe.
    pub(crate) fn put_root(&self, address: u64) {
        let (slot, tag) = Self::place(address);
        if let Some(slot) = self.slots.get(slot)
            && address >> ADDRESS_BITS == 0
        {
            slot.store(tag << 24 | Self::ROOT, Ordering::Relaxed);
        }
    }

    /// Forgets everything, because the modules change.
    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot.get_mut() = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{MAX_OFFSET, MAX_SAVED};

    #[test]
    fn what_was_put_is_got_and_nothing_else() {
        let cache = RuleCache::new();
        let rules = [
            FrameRule { base: Base::StackPointer, offset: 8, saved: 0 },
            FrameRule { base: Base::FramePointer, offset: 16, saved: 2 },
            FrameRule { base: Base::StackPointer, offset: MAX_OFFSET, saved: MAX_SAVED },
        ];
        for (at, rule) in rules.into_iter().enumerate() {
            let address = 0x7fff_f123_4567 + at as u64;
            assert_eq!(cache.get(address), None);
            cache.put(address, rule);
            assert_eq!(cache.get(address), Some(rule));
            assert_eq!([address + 4096, address ^ 1 << 47].map(|other| cache.get(other)), [None, None]);
        }
        assert_eq!([0, u64::MAX].map(|address| cache.get(address)), [None, None]);
        cache.put_root(0x5500_1234);
        assert_eq!((cache.is_root(0x5500_1234), cache.get(0x5500_1234)), (true, None));
        assert_eq!([0, 0x5500_1235, u64::MAX].map(|address| cache.is_root(address)), [false; 3]);
        cache.put(u64::MAX - 5, rules[0]);
        assert_eq!(cache.get(u64::MAX - 5), None, "not a user's address");
        assert_eq!(cache.clone().get(0x7fff_f123_4567), None);
    }

    #[test]
    fn addresses_that_share_a_slot_are_distinguished() {
        let cache = RuleCache::new();
        for address in (0x5500_0000_0000..).step_by(0x35).take(100_000) {
            let saved = (address % 61) as u8;
            cache.put(address, FrameRule { base: Base::StackPointer, offset: 8, saved });
        }
        let known = (0x5500_0000_0000u64..).step_by(0x35).take(100_000).filter(|&address| {
            cache.get(address).inspect(|rule| assert_eq!(u64::from(rule.saved), address % 61)).is_some()
        });
        let known = known.count();
        assert!((4_000..=8_192).contains(&known), "{known} of 8192 slots are used");
        assert_eq!(RuleCache::NONE.get(0x5500_0000_0000), None);
    }
}
