//! Everything that a recording finds, by events or by ptrace.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::arguments::Arguments;
use super::counters::Counters;
use super::rows::SampleRows;
use super::spaces::SharedModules;
use super::stack_collector::StackCollector;
use super::stack_table::StackNumber;
use super::syscalls::SyscallTable;
use super::threads::Threads;
use crate::sys::machine;

/// What a recording has found so far. Profiles are made from it.
pub(crate) struct Findings {
    pub(crate) threads: Threads,
    pub(crate) stacks: StackCollector,
    pub(crate) rows: SampleRows,
    pub(crate) syscalls: SyscallTable,
    /// The arguments of those calls, if they are recorded.
    pub(crate) arguments: Arguments,
    /// The system calls in which threads were already waiting before the recording, by stack.
    pub(crate) waits: FxHashMap<StackNumber, i64>,
    /// How often the kernel throttled the sampling.
    pub(crate) throttled: u64,
    /// By the clock of the records.
    pub(crate) started_at: u64,
    pub(super) counters: Arc<Counters>,
}

impl Findings {
    /// Starts empty, from now on.
    pub(crate) fn new(modules: SharedModules, counters: Arc<Counters>, max_moments: usize) -> Self {
        Self {
            threads: Threads::default(),
            stacks: StackCollector::new(modules, counters.clone()),
            rows: SampleRows::new(max_moments),
            syscalls: SyscallTable::default(),
            arguments: Arguments::default(),
            waits: FxHashMap::default(),
            throttled: 0,
            started_at: machine::monotonic_nanos(),
            counters,
        }
    }

    /// A note for the user when the timeline ended before the recording did.
    pub(crate) fn timeline_note(&self) -> Option<String> {
        let seconds = self.rows.timeline_end?.saturating_sub(self.started_at) as f64 / 1e9;
        let moments = self.rows.moments.len();
        Some(format!(
            "the timeline ends after {seconds:.1} s: {moments} moments are kept; the totals continue"
        ))
    }
}
