//! Counters other than samples.

use std::sync::atomic::AtomicU64;

/// Counters that other threads read while the recording runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Stacks of CPU samples: all of them, then those larger than their dump.
    pub(crate) stacks: AtomicU64,
    pub(crate) cut: AtomicU64,
    /// Stacks whose first missing word would fit in the largest dump.
    pub(crate) cut_nearby: AtomicU64,
    /// Stacks that the eager drain completed: all of them, then those that no dump could hold.
    pub(crate) completed: AtomicU64,
    pub(crate) completed_far: AtomicU64,
    pub(crate) syscalls: AtomicU64,
}

/// How well the stacks could be unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackQuality {
    pub(crate) rooted: u64,
    pub(crate) truncated: u64,
    /// Truncated stacks that are larger than the dump.
    pub(crate) out_of_dump: u64,
    /// Truncated stacks that end in code without unwind information, or in unknown code.
    pub(crate) no_rule: u64,
}

impl StackQuality {
    /// Notes that a stack larger than its dump has been completed.
    pub(super) fn complete_one(&mut self) {
        self.truncated -= 1;
        self.out_of_dump -= 1;
        self.rooted += 1;
    }
}
