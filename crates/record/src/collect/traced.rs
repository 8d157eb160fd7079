//! What a tracer, which stops threads at their system calls, tells instead of records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flamelet_unwind::{End, MAX_DEPTH, Reason, Registers, Unwound, walk};

use super::rows::{Meaning, RowKey, Rows};
use super::threads::ThreadRow;
use super::{Counters, Intake, SharedModules, StackNumber, judged};
use crate::events::plan::Source;
use crate::events::session::Origins;
use crate::events::wire::ThreadOf;
use crate::sys::machine;

impl Intake {
    /// For what a tracer tells, from now on.
    pub(crate) fn traced(counters: Arc<Counters>, max_moments: usize) -> Self {
        let (now, rows) = (machine::monotonic_nanos(), Rows::new(max_moments));
        Self::new(Origins::default(), SharedModules::default(), counters, 1, now, rows)
    }

    /// The row of a thread.
    pub(crate) fn row_of(&mut self, thread: ThreadOf) -> ThreadRow {
        self.threads.of(thread).row
    }

    /// A process runs another program.
    pub(crate) fn executed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, true);
        self.spaces.forget(thread.pid);
    }

    /// A thread has ended. Its number may be another's from now on.
    pub(crate) fn ended(&mut self, thread: ThreadOf) {
        self.threads.exit(thread);
        if thread.pid == thread.tid {
            self.spaces.forget(thread.pid);
        }
    }

    /// A thread has this name.
    pub(crate) fn renamed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, false);
    }

    /// A process may have loaded libraries since its maps were read.
    pub(crate) fn read_maps_again(&mut self, pid: u32) {
        self.spaces.forget(pid);
    }

    /// A system call returned.
    pub(crate) fn add_call(&mut self, thread: ThreadOf, number: i64, result: i64, nanos: Option<u64>) {
        let row = self.threads.of(thread).row;
        self.counters.syscalls.fetch_add(1, Ordering::Relaxed);
        self.syscalls.entry((row, number)).or_default().add(result, nanos);
    }

    /// A system call was made from this stack, which stands for `weight` calls.
    pub(crate) fn add_call_stack(&mut self, thread: ThreadOf, number: i64, stack: StackNumber, weight: u64) {
        let meaning = Meaning::Syscall { number, is_regular: true };
        let thread = self.threads.of(thread).row;
        self.rows.add(RowKey { stack, thread, meaning }, weight);
    }

    /// The event at a place of the options happened.
    pub(crate) fn add_named(&mut self, thread: ThreadOf, at: usize, stack: StackNumber, now: u64) {
        self.counters.samples.fetch_add(1, Ordering::Relaxed);
        let thread = self.threads.of(thread).row;
        self.rows.add_at(RowKey { stack, thread, meaning: Meaning::Named(at) }, 1, now);
    }

    /// The stack of a thread that stands still.
    pub(crate) fn standing_stack(&mut self, thread: ThreadOf, registers: &Registers) -> StackNumber {
        let mut frames = std::mem::take(&mut self.frames);
        let walked = self.walk_live(thread, registers, &mut frames[..MAX_DEPTH]);
        let space = self.spaces.of_stack(thread.pid).clone();
        let last = frames[..walked.depth].last().copied().unwrap_or(0);
        let end = judged(walked.end, &space.modules, last);
        self.count_end(end, Source::SyscallStack { is_regular: true });
        let stack = self.stacks.intern(thread.pid, space.id, &space.modules, &frames[..walked.depth]);
        self.frames = frames;
        stack
    }

    /// Whether the stack of a thread that stands still ends before code that is not known.
    pub(crate) fn knows_stack(&mut self, thread: ThreadOf, registers: &Registers) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let walked = self.walk_live(thread, registers, &mut frames[..MAX_DEPTH]);
        self.frames = frames;
        walked.end != End::Truncated(Reason::NoModule)
    }

    /// Unwinds a thread that stands still.
    pub(super) fn walk_live(
        &mut self,
        thread: ThreadOf,
        registers: &Registers,
        frames: &mut [u64],
    ) -> Unwound {
        let space = self.spaces.of(thread.pid).clone();
        let live = &mut self.live;
        live.begin(thread.pid, machine::monotonic_nanos());
        walk(&space.modules, registers, &mut |address: u64| live.read(address), frames)
    }
}
