//! Everything that is found, by whatever means.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::counters::Counters;
use super::rows::Rows;
use super::spaces::SharedModules;
use super::stack_collector::StackCollector;
use super::stack_table::StackNumber;
use super::syscalls::SyscallTable;
use super::threads::Threads;
use crate::sys::machine;

/// What a recording found so far; profiles are made of it.
pub(crate) struct Findings {
    pub(crate) threads: Threads,
    pub(crate) stacks: StackCollector,
    pub(crate) rows: Rows,
    pub(crate) syscalls: SyscallTable,
    /// The system calls in which threads waited before the recording, by their stacks.
    pub(crate) waits: FxHashMap<StackNumber, i64>,
    /// How often the kernel paused the sampling.
    pub(crate) throttled: u64,
    /// By the clock of the records.
    pub(crate) started_at: u64,
    pub(super) counters: Arc<Counters>,
}

impl Findings {
    /// Nothing yet, from now on.
    pub(crate) fn new(modules: SharedModules, counters: Arc<Counters>, max_moments: usize) -> Self {
        Self {
            threads: Threads::default(),
            stacks: StackCollector::new(modules, counters.clone()),
            rows: Rows::new(max_moments),
            syscalls: SyscallTable::default(),
            waits: FxHashMap::default(),
            throttled: 0,
            started_at: machine::monotonic_nanos(),
            counters,
        }
    }

    /// What a person should know of a timeline that ended before the recording.
    pub(crate) fn timeline_note(&self) -> Option<String> {
        let seconds = self.rows.timeline_end?.saturating_sub(self.started_at) as f64 / 1e9;
        let moments = self.rows.moments.len();
        Some(format!("the timeline ends after {seconds:.1} s: {moments} moments are kept; the totals go on"))
    }
}
