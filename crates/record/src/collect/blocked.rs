//! Threads that are not running: when they stopped, where, and when they continue.
//!
//! While its thread is blocked, a stack larger than its dump can be completed from memory. The record of the thread's
//! next run proves that it stood still: it must be later than the reading.

use flamelet_unwind::{End, MAX_DEPTH, Reason, Registers};

use super::before::Wait;
use super::findings::Findings;
use super::intake::Intake;
use super::order::Due;
use super::rows::{Meaning, RowKey};
use super::stack_collector::StackCollector;
use super::stack_table::StackNumber;
use super::threads::{Completed, Cut, ThreadRow};
use crate::events::plan::EventSource;
use crate::events::ring_records::{RingSample, ThreadOf};
use crate::sys::machine;

impl Intake {
    /// Notes where `thread` waits now, as if since before the recording.
    pub(super) fn note_wait(&mut self, thread: ThreadOf) {
        let Some(wait) = Wait::of(thread) else { return };
        let mut frames = [0; MAX_DEPTH];
        // The frame pointer is unknown; a rule that needs it ends the stack.
        let registers = Registers { pc: wait.pc, sp: wait.sp, fp: 0, lr: 0 };
        let Findings { threads, stacks, waits, started_at, .. } = &mut self.findings;
        let walked = stacks.walk_standing(thread, &registers, &mut frames);
        // It must have stood still for the whole time that it was read.
        if Wait::of(thread) != Some(wait) {
            return;
        }
        let stack = stacks.intern(thread.pid, &frames[..walked.depth]);
        waits.insert(stack, wait.call);
        let state = threads.of(thread);
        if state.is_silent {
            state.stopped_at = Some(stack);
            state.stopped_since = Some((*started_at, false));
        }
    }

    /// Handles a thread that stops running at `sample`.
    pub(super) fn stop(&mut self, sample: &RingSample<'_>, due: &Due<'_>) {
        let (stack, end) = self.findings.stacks.unwind(sample, due, EventSource::Switch);
        let is_cut = end == Some(End::Truncated(Reason::OutOfStack));
        let cut = sample.user.filter(|_| is_cut).map(|user| Cut {
            thread: sample.thread,
            kernel: sample.kernel_frames().collect(),
            registers: user.registers,
        });
        if cut.is_some() {
            self.cut_threads.push(sample.thread.tid);
        }
        let state = self.findings.threads.of(sample.thread);
        (state.stopped_at, state.cut, state.completed) = (Some(stack), cut, None);
    }

    /// Reads the stacks of the threads that are still blocked according to the records taken so far.
    pub(super) fn complete_blocked(&mut self) {
        let Findings { threads, stacks, .. } = &mut self.findings;
        for tid in self.cut_threads.drain(..) {
            let Some(cut) = threads.known(tid).and_then(|state| state.cut.take()) else { continue };
            let Some(completed) = cut.complete(stacks) else { continue };
            if let Some(state) = threads.known(tid) {
                state.completed = Some(completed);
            }
        }
    }

    /// Handles a thread that runs again.
    pub(super) fn resume(&mut self, thread: ThreadOf, now: u64) {
        let started_at = self.findings.started_at;
        let state = self.findings.threads.of(thread);
        let since = match state.stopped_since.take() {
            Some(since) => since,
            None if state.is_silent => (started_at, false),
            None => return,
        };
        state.is_silent = false;
        let (row, stopped_at) = (state.row, state.take_stopped_at(now));
        self.blocked(row, stopped_at, since, now);
    }

    /// Adds the time from `since` to `now` in which a thread did not run.
    fn blocked(
        &mut self,
        thread: ThreadRow,
        (stack, is_completed): (Option<StackNumber>, bool),
        (since, is_preempted): (u64, bool),
        now: u64,
    ) {
        let Findings { stacks, rows, started_at, .. } = &mut self.findings;
        if is_completed {
            stacks.quality.complete_one();
        }
        let stack = stack.unwrap_or_else(|| stacks.unknown());
        let key = RowKey { stack, thread, meaning: Meaning::OffCpu { is_preempted } };
        rows.add_span(key, since.max(*started_at), now);
    }

    /// Closes every wait that is still open.
    pub(super) fn close(&mut self, now: u64) {
        let living = self.findings.threads.living();
        let stopped: Vec<_> = living
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

impl Cut {
    /// Reads the stack from the thread's memory. Returns it only if it reaches the thread's first frame.
    fn complete(&self, stacks: &mut StackCollector) -> Option<Completed> {
        let mut frames = self.kernel.clone();
        let depth = frames.len();
        frames.resize(depth + MAX_DEPTH, 0);
        let walked = stacks.walk_standing(self.thread, &self.registers, &mut frames[depth..]);
        let read_at = machine::monotonic_nanos();
        frames.truncate(depth + walked.depth);
        let is_whole = walked.end == End::Rooted;
        is_whole.then(|| Completed { stack: stacks.intern(self.thread.pid, &frames), read_at })
    }
}
