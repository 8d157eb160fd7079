//! What a tracer, which stops threads at their system calls, reports instead of records.

use std::sync::atomic::Ordering;

use super::findings::Findings;
use super::rows::{Meaning, RowKey};
use super::stack_table::StackNumber;
use super::syscalls::CallKey;
use super::threads::ThreadRow;
use crate::events::ring_records::ThreadOf;

impl Findings {
    pub(crate) fn row_of(&mut self, thread: ThreadOf) -> ThreadRow {
        self.threads.of(thread).row
    }

    /// Notes that a process has executed another program.
    pub(crate) fn executed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, true);
        self.stacks.spaces.forget(thread.pid);
    }

    /// Notes that a thread has ended. Its id may be reused from now on.
    pub(crate) fn ended(&mut self, thread: ThreadOf) {
        self.threads.exit(thread);
        if thread.pid == thread.tid {
            self.stacks.spaces.forget(thread.pid);
        }
    }

    /// Notes the name of a thread.
    pub(crate) fn renamed(&mut self, thread: ThreadOf, name: &str) {
        self.threads.rename(thread, name, false);
    }

    /// Notes that a process may have loaded libraries since its maps were read.
    pub(crate) fn read_maps_again(&mut self, pid: u32) {
        self.stacks.spaces.forget(pid);
    }

    /// Adds a system call that returned.
    pub(crate) fn add_call(&mut self, key: CallKey, result: i64, nanos: Option<u64>) {
        self.counters.syscalls.fetch_add(1, Ordering::Relaxed);
        self.syscalls.add(key, result, nanos);
    }

    /// Adds the stack of a system call, which stands for `weight` calls.
    pub(crate) fn add_call_stack(&mut self, key: CallKey, stack: StackNumber, weight: u64) {
        let CallKey { thread, number, arguments } = key;
        let meaning = Meaning::Syscall { number, arguments, is_regular: true };
        self.rows.add(RowKey { stack, thread, meaning }, weight);
    }

    /// Adds an occurrence of the event at index `at` of the options.
    pub(crate) fn add_named(&mut self, thread: ThreadOf, at: usize, stack: StackNumber, now: u64) {
        self.counters.samples.fetch_add(1, Ordering::Relaxed);
        let thread = self.threads.of(thread).row;
        self.rows.add_at(RowKey { stack, thread, meaning: Meaning::Named(at) }, 1, now);
    }
}
