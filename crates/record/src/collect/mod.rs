//! What becomes of the records: processes are followed, stacks unwound and counted, times paired.

mod before;
mod images;
mod order;
mod rows;
mod spaces;
mod stacks;
mod syscalls;
mod threads;

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_unwind::{Dump, End, MAX_DEPTH, Reason, walk};
use rustc_hash::FxHashMap;

pub(crate) use rows::{Meaning, Row};
pub(crate) use spaces::SharedModules;
pub(crate) use stacks::{MappingNumber, StackNumber, Stacks};
pub(crate) use syscalls::SyscallTable;
pub use syscalls::{BUCKETS, SyscallStats};
pub(crate) use threads::Threads;

use crate::drain::{Chunk, Unwound};
use crate::plan::Source;
use crate::session::{Origin, Origins};
use crate::wire::{Mmap, Raw, Record, RegisterMask, Sample, ThreadOf};
use images::Mapped;
use order::{Due, Order};
use rows::{RowKey, Rows};
use spaces::Spaces;

/// Counters that other threads look at while the recording runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Stacks of CPU samples, in all and those larger than their dump.
    pub(crate) stacks: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) syscalls: AtomicU64,
}

/// How the stacks came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackQuality {
    pub(crate) rooted: u64,
    pub(crate) truncated: u64,
    /// Of the truncated: larger than the dump.
    pub(crate) out_of_dump: u64,
    /// Of the truncated: in code without unwind information, or unknown.
    pub(crate) no_rule: u64,
}

/// Everything that was collected.
pub(crate) struct Collector {
    order: Order,
    intake: Intake,
}

/// Everything but the order, which lends records to it.
pub(crate) struct Intake {
    origins: Origins,
    known: FxHashMap<u64, Origin>,
    pub(crate) spaces: Spaces,
    pub(crate) threads: Threads,
    pub(crate) stacks: Stacks,
    pub(crate) rows: Rows,
    pub(crate) syscalls: SyscallTable,
    pub(crate) quality: StackQuality,
    pub(crate) throttled: u64,
    /// The system calls in which threads waited before the recording, by their stacks.
    pub(crate) waits: FxHashMap<StackNumber, i64>,
    /// By the clock of the records.
    pub(crate) started_at: u64,
    counters: Arc<Counters>,
    /// The worth of a CPU sample in nanoseconds.
    cpu_period: u64,
    frames: Vec<u64>,
}

impl Collector {
    pub(crate) fn new(
        rings: usize,
        origins: Origins,
        modules: SharedModules,
        counters: Arc<Counters>,
        cpu_period: u64,
        started_at: u64,
    ) -> Self {
        let intake = Intake {
            origins,
            known: FxHashMap::default(),
            spaces: Spaces::new(modules),
            threads: Threads::default(),
            stacks: Stacks::default(),
            rows: Rows::default(),
            syscalls: SyscallTable::default(),
            quality: StackQuality::default(),
            throttled: 0,
            waits: FxHashMap::default(),
            started_at,
            counters,
            cpu_period,
            frames: vec![0; MAX_DEPTH + 256],
        };
        Self { order: Order::new(rings), intake }
    }

    /// Takes in what was read of one ring.
    pub(crate) fn add(&mut self, chunk: Chunk) {
        self.order.add(chunk);
        let intake = &mut self.intake;
        self.order.take_due(|due| intake.take(&due));
    }

    /// The end: what waits is taken, and what still goes on is closed at `now`.
    pub(crate) fn finish(mut self, now: u64) -> Intake {
        let intake = &mut self.intake;
        self.order.take_rest(|due| intake.take(&due));
        intake.close(now);
        self.intake
    }

    /// What was collected so far.
    pub(crate) fn so_far(&self) -> &Intake {
        &self.intake
    }

    /// A process that was there before.
    pub(crate) fn introduce(&mut self, pid: u32, with_waits: bool) {
        self.intake.spaces.of(pid);
        for tid in crate::targets::threads(pid) {
            let thread = ThreadOf { pid, tid };
            self.intake.threads.of(thread);
            if with_waits {
                self.intake.note_wait(thread);
            }
        }
    }
}

impl Intake {
    fn take(&mut self, due: &Due<'_>) {
        if due.record.is_sample() {
            self.take_sample(due);
            return;
        }
        match due.record.parse() {
            Some(Record::Mmap(mmap)) => self.take_mmap(&mmap),
            Some(Record::Comm { thread, name, is_exec }) => {
                self.threads.rename(thread, &String::from_utf8_lossy(name), is_exec);
                if is_exec {
                    self.spaces.exec(thread.pid);
                }
            }
            Some(Record::Fork { thread, parent }) => {
                self.threads.fork(thread, parent);
                self.spaces.fork(thread.pid, parent.pid);
            }
            Some(Record::Exit { thread }) => self.exit(thread),
            Some(Record::SwitchOut { thread, is_preempted }) => {
                let state = self.threads.of(thread);
                state.is_silent = false;
                state.stopped_since = Some((due.time, is_preempted));
            }
            Some(Record::SwitchIn { thread }) => self.resume(thread, due.time),
            Some(Record::Lost { count }) => {
                self.counters.lost.fetch_add(count, Ordering::Relaxed);
            }
            Some(Record::Throttled) => self.throttled += 1,
            None => {}
        }
    }

    fn take_mmap(&mut self, mmap: &Mmap<'_>) {
        let name = String::from_utf8_lossy(mmap.name);
        let (pid, start, end, offset, build_id) =
            (mmap.pid, mmap.start, mmap.end, mmap.offset, mmap.build_id);
        self.spaces.map(&Mapped { pid, start, end, offset, name: &name, build_id, is_deleted: false });
    }

    fn exit(&mut self, thread: ThreadOf) {
        self.threads.exit(thread);
        // The last thread of a process need not be its first; a process whose first thread is gone and whose
        // others run on is read again from the system.
        if thread.pid == thread.tid && crate::targets::threads(thread.pid).is_empty() {
            self.spaces.exit(thread.pid);
        }
    }

    fn resume(&mut self, thread: ThreadOf, now: u64) {
        let started_at = self.started_at;
        let state = self.threads.of(thread);
        let since = match state.stopped_since.take() {
            Some(since) => since,
            None if state.is_silent => (started_at, false),
            None => return,
        };
        state.is_silent = false;
        let (row, stack) = (state.row, state.stopped_at.take());
        self.blocked(row, stack, since, now);
    }

    /// A thread did not run from `since` to `now`.
    fn blocked(
        &mut self,
        thread: threads::ThreadRow,
        stack: Option<StackNumber>,
        (since, is_preempted): (u64, bool),
        now: u64,
    ) {
        let since = since.max(self.started_at);
        let stack =
            stack.unwrap_or_else(|| self.stacks.intern(0, u32::MAX, &flamelet_unwind::Modules::new(), &[]));
        let key = RowKey { stack, thread, meaning: Meaning::OffCpu { is_preempted } };
        self.rows.add_at(key, now.saturating_sub(since), since);
    }

    /// Closes what still goes on.
    fn close(&mut self, now: u64) {
        let stopped: Vec<_> = self
            .threads
            .living()
            .filter_map(|state| Some((state.row, state.stopped_at, state.stopped_since?)))
            .collect();
        for (row, stack, since) in stopped {
            self.blocked(row, stack, since, now);
        }
    }

    fn origin(&mut self, record: &Raw<'_>) -> Option<Origin> {
        let id = record.identifier()?;
        if let Some(&origin) = self.known.get(&id) {
            return Some(origin);
        }
        self.known = self.origins.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.known.get(&id).copied()
    }

    fn take_sample(&mut self, due: &Due<'_>) {
        let Some(origin) = self.origin(&due.record) else { return };
        let Some(sample) = due.record.sample(origin.sample_type, RegisterMask::NATIVE) else { return };
        // The idle task is nobody's work.
        if sample.thread.pid == 0 || !self.threads.of(sample.thread).accepts(&origin) {
            return;
        }
        match origin.source {
            Source::Track => {}
            Source::SyscallEnter => {
                let number = syscalls::number(sample.raw);
                self.threads.of(sample.thread).syscall = number.map(|number| (number, sample.time));
            }
            Source::SyscallExit => self.syscall_returned(&sample),
            Source::Cpu => {
                let stack = self.stack(&sample, due, origin.source);
                self.counters.samples.fetch_add(1, Ordering::Relaxed);
                self.add(stack, &sample, Meaning::Cpu, self.cpu_period);
            }
            Source::Switch => {
                let stack = self.stack(&sample, due, origin.source);
                self.threads.of(sample.thread).stopped_at = Some(stack);
            }
            Source::SyscallStack => {
                let stack = self.stack(&sample, due, origin.source);
                let thread = self.threads.of(sample.thread).row;
                let meaning = Meaning::Syscall(syscalls::number(sample.raw).unwrap_or(-1));
                self.rows.add(RowKey { stack, thread, meaning }, sample.period);
            }
            Source::Named(at) => {
                let stack = self.stack(&sample, due, origin.source);
                self.counters.samples.fetch_add(1, Ordering::Relaxed);
                self.add(stack, &sample, Meaning::Named(at), sample.period);
            }
        }
    }

    fn add(&mut self, stack: StackNumber, sample: &Sample<'_>, meaning: Meaning, amount: u64) {
        let thread = self.threads.of(sample.thread).row;
        self.rows.add_at(RowKey { stack, thread, meaning }, amount, sample.time);
    }

    fn syscall_returned(&mut self, sample: &Sample<'_>) {
        let (Some(number), Some(result)) = (syscalls::number(sample.raw), syscalls::result(sample.raw))
        else {
            return;
        };
        let state = self.threads.of(sample.thread);
        let begun = state.syscall.take().filter(|(begun, _)| *begun == number);
        let nanos = begun.map(|(_, since)| sample.time.saturating_sub(since));
        let row = state.row;
        self.counters.syscalls.fetch_add(1, Ordering::Relaxed);
        self.syscalls.entry((row, number)).or_default().add(result, nanos);
    }

    /// The kernel's frames and below them the user's.
    fn unwind(&mut self, sample: &Sample<'_>, due: &Due<'_>) -> (StackNumber, Option<End>) {
        let mut frames = std::mem::take(&mut self.frames);
        let mut depth = 0;
        for (frame, address) in frames.iter_mut().zip(sample.kernel_frames()) {
            *frame = address;
            depth += 1;
        }
        let space = self.spaces.of(sample.thread.pid).clone();
        // In the middle of an exec the registers are still those of the program that is gone.
        let user = sample.user.as_ref().filter(|user| {
            depth == 0 || !space.was_executed || space.modules.find(user.registers.pc).is_some()
        });
        let mut end = None;
        if let Some(user) = user {
            let (walked, how) = match ready(due.unwound, due.offset) {
                Some((ready, end)) => {
                    let kept = &ready[..ready.len().min(frames.len() - depth)];
                    frames[depth..depth + kept.len()].copy_from_slice(kept);
                    (kept.len(), end)
                }
                None => {
                    let mut dump = Dump::new(user.registers.sp, user.stack);
                    let walked = walk(&space.modules, &user.registers, &mut dump, &mut frames[depth..]);
                    (walked.depth, walked.end)
                }
            };
            depth += walked;
            end = Some(judged(how, &space.modules, frames[depth - 1]));
        }
        let stack = self.stacks.intern(sample.thread.pid, space.id, &space.modules, &frames[..depth]);
        self.frames = frames;
        (stack, end)
    }

    /// The stack of a sample, and how good it is.
    fn stack(&mut self, sample: &Sample<'_>, due: &Due<'_>, source: Source) -> StackNumber {
        let (stack, end) = self.unwind(sample, due);
        if let Some(end) = end {
            self.count_end(end, source);
        }
        stack
    }

    fn count_end(&mut self, end: End, source: Source) {
        // Only samples of running threads can be completed, so only they count for the decision to.
        if source == Source::Cpu {
            self.counters.stacks.fetch_add(1, Ordering::Relaxed);
        }
        match end {
            End::Rooted => self.quality.rooted += 1,
            End::Truncated(reason) => {
                self.quality.truncated += 1;
                match reason {
                    Reason::OutOfStack => {
                        self.quality.out_of_dump += 1;
                        if source == Source::Cpu {
                            self.counters.cut.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Reason::NoRule | Reason::NoModule => self.quality.no_rule += 1,
                    _ => {}
                }
            }
        }
    }
}

/// The start of a process, in the dynamic loader, is assembly without unwind information: nothing called it.
fn judged(end: End, modules: &flamelet_unwind::Modules, last: u64) -> End {
    let is_loader = |module: &flamelet_unwind::Module| {
        let name = module.name.rsplit('/').next().unwrap_or("");
        name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so")
    };
    match end {
        End::Truncated(Reason::NoRule) if modules.find(last).is_some_and(is_loader) => End::Rooted,
        end => end,
    }
}

/// The frames that the draining thread found already.
fn ready(unwound: &Unwound, offset: u32) -> Option<(&[u64], End)> {
    if unwound.stacks.is_empty() { None } else { unwound.stack(offset) }
}
