//! What a tracer, which stops threads at their system calls, tells instead of records.

use std::sync::atomic::Ordering;

use super::findings::Findings;
use super::rows::{Meaning, RowKey};
use super::stack_table::StackNumber;
use super::threads::ThreadRow;
use crate::events::ring_records::ThreadOf;

impl Findings {
    /// The row of a thread.
    pub(crate) fn row_of(&mut self, thread: ThreadOf) -> ThreadRow {
        self.threads.of(thread).row
    }

    /// A process runs another program.
    pub(crate) fn executed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, true);
        self.stacks.spaces.forget(thread.pid);
    }

    /// A thread has ended. Its number may be another's from now on.
    pub(crate) fn ended(&mut self, thread: ThreadOf) {
        self.threads.exit(thread);
        if thread.pid == thread.tid {
            self.stacks.spaces.forget(thread.pid);
        }
    }

    /// A thread has this name.
    pub(crate) fn renamed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, false);
    }

    /// A process may have loaded libraries since its maps were read.
    pub(crate) fn read_maps_again(&mut self, pid: u32) {
        self.stacks.spaces.forget(pid);
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
}
