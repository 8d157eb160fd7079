//! Turns the kernel's records into findings.

use std::sync::atomic::Ordering;

use flamelet_unwind::perf_event::Mmap;

use super::findings::Findings;
use super::images::MappedImage;
use super::order::Due;
use super::origins::KnownOrigins;
use super::rows::{Meaning, RowKey};
use super::stack_table::StackNumber;
use super::syscalls::{self, CallKey};
use super::threads::EndedCall;
use crate::events::plan::EventSource;
use crate::events::ring_records::{Record, RingSample, ThreadOf};
use crate::events::session::Origins;

/// Takes records in the order of time.
pub(super) struct Intake {
    pub(super) findings: Findings,
    origins: KnownOrigins,
    /// The nanoseconds that a CPU sample stands for.
    cpu_period: u64,
    /// Threads that stopped with a stack larger than its dump.
    pub(super) cut_threads: Vec<u32>,
}

impl Intake {
    pub(super) fn new(origins: Origins, cpu_period: u64, findings: Findings) -> Self {
        Self { findings, origins: KnownOrigins::new(origins), cpu_period, cut_threads: Vec::new() }
    }

    pub(super) fn take(&mut self, due: &Due<'_>) {
        if due.record.is_sample() {
            self.take_sample(due);
            return;
        }
        let Findings { threads, stacks, throttled, .. } = &mut self.findings;
        match due.record.parse() {
            Some(Record::Mmap(mmap)) => self.take_mmap(&mmap, due.time),
            Some(Record::Comm { thread, name, is_exec }) => {
                threads.rename(thread, &String::from_utf8_lossy(name), is_exec);
                if is_exec {
                    stacks.spaces.exec(thread.pid, due.time);
                }
            }
            Some(Record::Fork { thread, parent }) => {
                threads.fork(thread, parent);
                stacks.spaces.fork(thread.pid, parent.pid, due.time);
            }
            Some(Record::Exit { thread }) => self.exit(thread),
            Some(Record::SwitchOut { thread, is_preempted }) => {
                let state = threads.of(thread);
                state.is_silent = false;
                state.stopped_since = Some((due.time, is_preempted));
            }
            Some(Record::SwitchIn { thread }) => self.resume(thread, due.time),
            Some(Record::Lost { count }) => self.lose(due, count),
            Some(Record::Throttled) => *throttled += 1,
            None => {}
        }
    }

    /// Notes that a ring had no room for some records. Stacks of system calls are taken only if there is room.
    fn lose(&mut self, due: &Due<'_>, count: u64) {
        let source = self.origins.of(&due.record).map(|origin| origin.source);
        if source != Some(EventSource::SyscallStack { is_regular: false }) {
            self.findings.counters.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn take_mmap(&mut self, mmap: &Mmap<'_>, time: u64) {
        let name = String::from_utf8_lossy(mmap.name);
        let Mmap { pid, start, offset, build_id, .. } = *mmap;
        let Some(end) = start.checked_add(mmap.length) else { return };
        let mapped = MappedImage { pid, start, end, offset, name: &name, build_id, is_deleted: false };
        self.findings.stacks.spaces.map(&mapped, time);
    }

    fn exit(&mut self, thread: ThreadOf) {
        self.findings.threads.exit(thread);
        // The last thread of a process need not be its first. A process whose first thread is gone while others run
        // on is read again from the system.
        if thread.pid == thread.tid && crate::processes::threads(thread.pid).is_empty() {
            self.findings.stacks.spaces.exit(thread.pid);
        }
    }

    fn take_sample(&mut self, due: &Due<'_>) {
        let Some(origin) = self.origins.of(&due.record) else { return };
        let Some(sample) = due.record.sample(origin.sample_type) else { return };
        let threads = &mut self.findings.threads;
        // The idle task does no work for any process.
        if sample.thread.pid == 0 || !threads.of(sample.thread).accepts(&origin) {
            return;
        }
        match origin.source {
            EventSource::Track => {}
            EventSource::SyscallEnter => self.syscall_begins(&sample),
            EventSource::SyscallExit => self.syscall_returned(&sample),
            EventSource::Cpu => {
                let stack = self.sampled_stack(&sample, due, origin.source);
                self.add(stack, &sample, Meaning::Cpu, self.cpu_period);
            }
            EventSource::Switch => self.stop(&sample, due),
            EventSource::SyscallStack { is_regular } => {
                let stack = self.sampled_stack(&sample, due, origin.source);
                let number = syscalls::number(sample.raw).unwrap_or(-1);
                let meaning = Meaning::Syscall { number, arguments: None, is_regular };
                let key = self.key(stack, sample.thread, meaning);
                self.findings.rows.add(key, 1);
            }
            EventSource::Named(at) => {
                let stack = self.sampled_stack(&sample, due, origin.source);
                self.add(stack, &sample, Meaning::Named(at), sample.period);
            }
        }
    }

    fn sampled_stack(&mut self, sample: &RingSample<'_>, due: &Due<'_>, source: EventSource) -> StackNumber {
        self.findings.counters.samples.fetch_add(1, Ordering::Relaxed);
        self.findings.stacks.of_sample(sample, due, source)
    }

    fn add(&mut self, stack: StackNumber, sample: &RingSample<'_>, meaning: Meaning, amount: u64) {
        let key = self.key(stack, sample.thread, meaning);
        self.findings.rows.add_at(key, amount, sample.time);
    }

    fn key(&mut self, stack: StackNumber, thread: ThreadOf, meaning: Meaning) -> RowKey {
        RowKey { stack, thread: self.findings.threads.of(thread).row, meaning }
    }

    fn syscall_returned(&mut self, sample: &RingSample<'_>) {
        let Some(returned) = syscalls::returned(sample.raw) else { return };
        let state = self.findings.threads.of(sample.thread);
        let (since, thread) = state.end_call();
        let nanos = since.map(|since| sample.time.saturating_sub(since));
        let key = CallKey { thread, number: returned.number, arguments: None };
        let call = EndedCall { key, result: returned.result, nanos };
        if returned.is_interrupted() {
            state.interrupted = Some(call);
        } else {
            self.add_ended(call);
        }
    }

    fn syscall_begins(&mut self, sample: &RingSample<'_>) {
        let state = self.findings.threads.of(sample.thread);
        state.syscall_since = Some(sample.time);
        if let Some(call) = state.interrupted.take() {
            self.add_ended(call);
        }
    }

    fn add_ended(&mut self, EndedCall { key, result, nanos }: EndedCall) {
        self.findings.add_call(key, result, nanos);
    }

    /// Adds the calls that were interrupted at the end of the recording.
    pub(super) fn add_interrupted(&mut self) {
        let living = self.findings.threads.living();
        let interrupted: Vec<EndedCall> = living.filter_map(|state| state.interrupted.take()).collect();
        interrupted.into_iter().for_each(|call| self.add_ended(call));
    }
}
