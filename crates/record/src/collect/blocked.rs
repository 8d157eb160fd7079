//! Threads that do not run: since when, where, and until when.
//!
//! A stack larger than its dump can be completed while its thread is blocked: the thread stands still. Whether
//! it really did is told by the record of its next run, which must be later than the reading.

use flamelet_unwind::{End, MAX_DEPTH, Modules, Reason, Registers};

use super::rows::{Meaning, RowKey};
use super::stacks::StackNumber;
use super::threads::{ThreadRow, ThreadState};
use super::{Due, Intake};
use crate::events::plan::Source;
use crate::events::wire::{Sample, ThreadOf};
use crate::sys::machine;

/// Where a thread stopped, when its dump was too short to tell all of it.
#[derive(Debug)]
pub(super) struct Cut {
    thread: ThreadOf,
    kernel: Vec<u64>,
    registers: Registers,
}

/// A stack that was read while its thread was blocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    stack: StackNumber,
    /// When all of it was read.
    read_at: u64,
}

impl ThreadState {
    /// Where the thread stopped, now that it runs again at `now` (or never did), and whether that was completed.
    fn take_stopped_at(&mut self, now: u64) -> (Option<StackNumber>, bool) {
        self.cut = None;
        let completed = self.completed.take().filter(|completed| completed.read_at <= now);
        match (self.stopped_at.take(), completed) {
            (Some(_), Some(completed)) => (Some(completed.stack), true),
            (stopped_at, _) => (stopped_at, false),
        }
    }
}

impl Intake {
    /// A thread stops running where `sample` says.
    pub(super) fn stop(&mut self, sample: &Sample<'_>, due: &Due<'_>) {
        let (stack, end) = self.unwind(sample, due);
        if let Some(end) = end {
            self.count_end(end, Source::Switch);
        }
        let is_cut = end == Some(End::Truncated(Reason::OutOfStack));
        let cut = sample.user.filter(|_| is_cut).map(|user| Cut {
            thread: sample.thread,
            kernel: sample.kernel_frames().collect(),
            registers: user.registers,
        });
        if cut.is_some() {
            self.cut_threads.push(sample.thread.tid);
        }
        let state = self.threads.of(sample.thread);
        (state.stopped_at, state.cut, state.completed) = (Some(stack), cut, None);
    }

    /// Reads the stacks of the threads that are still blocked, as far as is known by now.
    pub(super) fn complete_blocked(&mut self) {
        for tid in std::mem::take(&mut self.cut_threads) {
            let Some(cut) = self.threads.known(tid).and_then(|state| state.cut.take()) else { continue };
            let Some(completed) = self.read_blocked(&cut) else { continue };
            if let Some(state) = self.threads.known(tid) {
                state.completed = Some(completed);
            }
        }
    }

    fn read_blocked(&mut self, cut: &Cut) -> Option<Completed> {
        let mut frames = cut.kernel.clone();
        let depth = frames.len();
        frames.resize(depth + MAX_DEPTH, 0);
        let walked = self.walk_live(cut.thread, &cut.registers, &mut frames[depth..]);
        let read_at = machine::monotonic_nanos();
        frames.truncate(depth + walked.depth);
        let space = self.spaces.of_stack(cut.thread.pid).clone();
        let stack = (walked.end == End::Rooted)
            .then(|| self.stacks.intern(cut.thread.pid, space.id, &space.modules, &frames))?;
        Some(Completed { stack, read_at })
    }

    /// A thread runs again.
    pub(super) fn resume(&mut self, thread: ThreadOf, now: u64) {
        let started_at = self.started_at;
        let state = self.threads.of(thread);
        let since = match state.stopped_since.take() {
            Some(since) => since,
            None if state.is_silent => (started_at, false),
            None => return,
        };
        state.is_silent = false;
        let (row, stopped_at) = (state.row, state.take_stopped_at(now));
        self.blocked(row, stopped_at, since, now);
    }

    /// A thread did not run from `since` to `now`.
    fn blocked(
        &mut self,
        thread: ThreadRow,
        (stack, is_completed): (Option<StackNumber>, bool),
        (since, is_preempted): (u64, bool),
        now: u64,
    ) {
        if is_completed {
            self.quality.truncated -= 1;
            self.quality.out_of_dump -= 1;
            self.quality.rooted += 1;
        }
        let since = since.max(self.started_at);
        let stack = stack.unwrap_or_else(|| self.stacks.intern(0, u32::MAX, &Modules::new(), &[]));
        let key = RowKey { stack, thread, meaning: Meaning::OffCpu { is_preempted } };
        self.rows.add_span(key, since, now);
    }

    /// Closes what still goes on.
    pub(super) fn close(&mut self, now: u64) {
        let stopped: Vec<_> = self
            .threads
            .living()
            .filter_map(|state| {
                let since = state.stopped_since?;
                Some((state.row, state.take_stopped_at(now), since))
            })
            .collect();
        for (row, stopped_at, since) in stopped {
            self.blocked(row, stopped_at, since, now);
        }
    }
}
