//! What becomes of the records: processes are followed, stacks unwound and counted, times paired.

mod before;
mod blocked;
mod images;
pub(crate) mod live_stack;
mod order;
mod rows;
mod spaces;
mod stacks;
mod syscalls;
mod threads;
mod traced;

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_unwind::perf_event::Mmap;
use flamelet_unwind::{Dump, End, MAX_DEPTH, Reason, walk};
use rustc_hash::FxHashMap;

pub(crate) use images::Images;
pub(crate) use rows::{Meaning, Row};
pub(crate) use spaces::{Published, SharedModules};
pub(crate) use stacks::{MappingNumber, StackNumber, Stacks, is_kernel};
pub(crate) use syscalls::SyscallTable;
pub use syscalls::{BUCKETS, SyscallStats};
pub(crate) use threads::Threads;

use crate::collect::live_stack::LiveStack;
use crate::events::chunk::Chunk;
use crate::events::plan::Source;
use crate::events::session::{Origin, Origins};
use crate::events::wire::{Raw, Record, Sample, ThreadOf};
use images::Mapped;
use order::{Due, Order};
use rows::{RowKey, Rows};
use spaces::Spaces;

/// In the largest dump there is some room for what is missing.
const LARGEST_DUMP: u64 = crate::Options::MAX_DUMP as u64 - 4096;

/// Counters that other threads look at while the recording runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) samples: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Stacks of CPU samples, in all and those larger than their dump.
    pub(crate) stacks: AtomicU64,
    pub(crate) cut: AtomicU64,
    /// Stacks whose first missing word would lie in the largest dump.
    pub(crate) cut_nearby: AtomicU64,
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
    /// Stacks that end in code without unwind information, and how often: it may be where everything begins.
    pub(crate) open_ended: FxHashMap<StackNumber, u64>,
    pub(crate) throttled: u64,
    /// The system calls in which threads waited before the recording, by their stacks.
    pub(crate) waits: FxHashMap<StackNumber, i64>,
    /// By the clock of the records.
    pub(crate) started_at: u64,
    counters: Arc<Counters>,
    /// The worth of a CPU sample in nanoseconds.
    cpu_period: u64,
    frames: Vec<u64>,
    /// Threads that stopped with stacks larger than their dumps.
    cut_threads: Vec<u32>,
    live: LiveStack,
}

impl Collector {
    pub(crate) fn new(
        rings: usize,
        origins: Origins,
        modules: SharedModules,
        counters: Arc<Counters>,
        cpu_period: u64,
        started_at: u64,
        max_moments: usize,
    ) -> Self {
        let intake = Intake::new(origins, modules, counters, cpu_period, started_at, Rows::new(max_moments));
        Self { order: Order::new(rings), intake }
    }

    /// Takes in what was read of some rings.
    pub(crate) fn add(&mut self, chunks: Vec<Chunk>) {
        chunks.into_iter().for_each(|chunk| self.order.add(chunk));
        let intake = &mut self.intake;
        self.order.take_due(|due| intake.take(&due));
        intake.complete_blocked();
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
        for tid in crate::processes::threads(pid) {
            let thread = ThreadOf { pid, tid };
            self.intake.threads.of(thread);
            if with_waits {
                self.intake.note_wait(thread);
            }
        }
    }
}

impl Intake {
    fn new(
        origins: Origins,
        modules: SharedModules,
        counters: Arc<Counters>,
        cpu_period: u64,
        started_at: u64,
        rows: Rows,
    ) -> Self {
        Self {
            origins,
            known: FxHashMap::default(),
            spaces: Spaces::new(modules),
            threads: Threads::default(),
            stacks: Stacks::default(),
            rows,
            syscalls: SyscallTable::default(),
            quality: StackQuality::default(),
            open_ended: FxHashMap::default(),
            throttled: 0,
            waits: FxHashMap::default(),
            started_at,
            counters,
            cpu_period,
            frames: vec![0; MAX_DEPTH + 256],
            cut_threads: Vec::new(),
            live: LiveStack::new(u64::MAX),
        }
    }

    /// What a person should know of a timeline that ended before the recording.
    pub(crate) fn timeline_note(&self) -> Option<String> {
        let seconds = self.rows.timeline_end?.saturating_sub(self.started_at) as f64 / 1e9;
        let moments = self.rows.moments.len();
        Some(format!("the timeline ends after {seconds:.1} s: {moments} moments are kept; the totals go on"))
    }

    fn take(&mut self, due: &Due<'_>) {
        if due.record.is_sample() {
            self.take_sample(due);
            return;
        }
        match due.record.parse() {
            Some(Record::Mmap(mmap)) => self.take_mmap(&mmap, due.time),
            Some(Record::Comm { thread, name, is_exec }) => {
                self.threads.rename(thread, &String::from_utf8_lossy(name), is_exec);
                if is_exec {
                    self.spaces.exec(thread.pid, due.time);
                }
            }
            Some(Record::Fork { thread, parent }) => {
                self.threads.fork(thread, parent);
                self.spaces.fork(thread.pid, parent.pid, due.time);
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

    fn take_mmap(&mut self, mmap: &Mmap<'_>, time: u64) {
        let name = String::from_utf8_lossy(mmap.name);
        let Mmap { pid, start, offset, build_id, .. } = *mmap;
        let Some(end) = start.checked_add(mmap.length) else { return };
        let mapped = Mapped { pid, start, end, offset, name: &name, build_id, is_deleted: false };
        self.spaces.map(&mapped, time);
    }

    fn exit(&mut self, thread: ThreadOf) {
        self.threads.exit(thread);
        // The last thread of a process need not be its first; a process whose first thread is gone and whose
        // others run on is read again from the system.
        if thread.pid == thread.tid && crate::processes::threads(thread.pid).is_empty() {
            self.spaces.exit(thread.pid);
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
        let Some(sample) = due.record.sample(origin.sample_type) else { return };
        // The idle task is nobody's work.
        if sample.thread.pid == 0 || !self.threads.of(sample.thread).accepts(&origin) {
            return;
        }
        match origin.source {
            Source::Track => {}
            Source::SyscallEnter => {
                self.threads.of(sample.thread).syscall_since = Some(sample.time);
            }
            Source::SyscallExit => self.syscall_returned(&sample),
            Source::Cpu => {
                let stack = self.stack(&sample, due, origin.source);
                self.counters.samples.fetch_add(1, Ordering::Relaxed);
                self.add(stack, &sample, Meaning::Cpu, self.cpu_period);
            }
            Source::Switch => self.stop(&sample, due),
            Source::SyscallStack { is_regular } => {
                let stack = self.stack(&sample, due, origin.source);
                self.counters.samples.fetch_add(1, Ordering::Relaxed);
                let thread = self.threads.of(sample.thread).row;
                let number = syscalls::number(sample.raw).unwrap_or(-1);
                self.rows.add(
                    RowKey { stack, thread, meaning: Meaning::Syscall { number, is_regular } },
                    sample.period,
                );
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
        let nanos = state.syscall_since.take().map(|since| sample.time.saturating_sub(since));
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
        let space = self.spaces.of_stack(sample.thread.pid).clone();
        // In the middle of an exec the registers are still those of the program that is gone.
        let user = sample.user.as_ref().filter(|user| {
            depth == 0 || !space.was_executed || space.modules.find(user.registers.pc).is_some()
        });
        let mut end = None;
        if let Some(user) = user {
            let (walked, how) = match due.unwound.stack(due.offset) {
                Some(ready) => {
                    let kept = &ready[..ready.len().min(frames.len() - depth)];
                    frames[depth..depth + kept.len()].copy_from_slice(kept);
                    (kept.len(), End::Rooted)
                }
                None => {
                    let mut dump = Dump::new(user.registers.sp, user.stack);
                    let walked = walk(&space.modules, &user.registers, &mut dump, &mut frames[depth..]);
                    let beyond = dump.missed().and_then(|missed| missed.checked_sub(user.registers.sp));
                    if beyond.is_some_and(|beyond| beyond < LARGEST_DUMP) {
                        self.counters.cut_nearby.fetch_add(1, Ordering::Relaxed);
                    }
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
        if end == Some(End::Truncated(Reason::NoRule)) {
            *self.open_ended.entry(stack).or_default() += 1;
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
