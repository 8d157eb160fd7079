//! What processes leave behind, and the summary of it.

use std::time::Duration;

use flamelet_preload_ledger::AllocationCounts;
use flamelet_preload_ledger::modules::Modules;

/// The summary of a recording, all processes together. Values are estimates if allocations are sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapSummary {
    /// How long it took.
    pub elapsed: Duration,
    /// Processes that allocated anything; a program started by `exec` counts as another one.
    pub processes: usize,
    /// Calls of allocation functions.
    pub allocations: u64,
    /// The bytes that they requested.
    pub allocated: u64,
    /// Blocks freed right after they were made, by the same thread.
    pub temporary: u64,
    /// The highest number of live bytes; for several processes, the sum of their peaks.
    pub peak: u64,
    /// Blocks that were alive at the end …
    pub live: u64,
    /// … and their bytes.
    pub live_bytes: u64,
    /// Allocations and samples whose stack was taken.
    pub recorded: u64,
    /// Of those, the ones whose stack does not reach the thread's first frame.
    pub truncated: u64,
    /// Of those, the ones whose stack did not fit on the disk.
    pub without_stack: u64,
    /// Allocations that were not recorded.
    pub lost: u64,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

impl HeapSummary {
    /// Returns the share of allocations whose stack reaches the thread's first frame; 1 if there are none.
    pub fn rooted_share(&self) -> f64 {
        let cut = self.truncated + self.without_stack;
        if self.recorded == 0 { 1.0 } else { 1.0 - cut as f64 / self.recorded as f64 }
    }
}

/// The files of one process image.
pub(super) struct ProcessFiles {
    pub(super) counts: AllocationCounts,
    pub(super) modules: Modules,
}
