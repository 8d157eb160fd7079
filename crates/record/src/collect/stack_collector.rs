//! Turns a sample, or a thread that is not running, into the number of its stack.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flamelet_unwind::{Dump, End, Era, MAX_DEPTH, Module, Modules, Reason, Registers, Unwound, walk};
use rustc_hash::FxHashMap;

use super::counters::{Counters, StackQuality};
use super::live_stack::LiveStack;
use super::order::Due;
use super::spaces::{SharedModules, Spaces};
use super::stack_table::{StackNumber, StackTable};
use crate::events::plan::EventSource;
use crate::events::ring_records::{RingSample, ThreadOf, UserSide};
use crate::sys::machine;

/// The largest dump, less some room for what is missing.
pub(crate) const LARGEST_DUMP: u64 = crate::RecordOptions::MAX_DUMP as u64 - 4096;

/// Unwinds stacks and stores each once.
pub(crate) struct StackCollector {
    pub(crate) table: StackTable,
    pub(crate) spaces: Spaces,
    pub(crate) quality: StackQuality,
    /// Stacks that end in code without unwind information, and how often. Such code may be where the thread begins.
    pub(crate) open_ended: FxHashMap<StackNumber, u64>,
    counters: Arc<Counters>,
    /// Reused from stack to stack.
    frames: Vec<u64>,
    live: LiveStack,
}

impl StackCollector {
    pub(super) fn new(modules: SharedModules, counters: Arc<Counters>) -> Self {
        Self {
            table: StackTable::default(),
            spaces: Spaces::new(modules),
            quality: StackQuality::default(),
            open_ended: FxHashMap::default(),
            counters,
            frames: vec![0; MAX_DEPTH + 256],
            live: LiveStack::new(u64::MAX),
        }
    }

    /// Returns the stack of a sample.
    pub(super) fn of_sample(
        &mut self,
        sample: &RingSample<'_>,
        due: &Due<'_>,
        source: EventSource,
    ) -> StackNumber {
        let (stack, end) = self.unwind(sample, due, source);
        if end == Some(End::Truncated(Reason::NoRule)) {
            *self.open_ended.entry(stack).or_default() += 1;
        }
        stack
    }

    /// Unwinds the stack of a sample: the kernel's frames, then the user's. Returns how the user's part ends.
    pub(super) fn unwind(
        &mut self,
        sample: &RingSample<'_>,
        due: &Due<'_>,
        source: EventSource,
    ) -> (StackNumber, Option<End>) {
        let mut frames = std::mem::take(&mut self.frames);
        let mut depth = 0;
        for (frame, address) in frames.iter_mut().zip(sample.kernel_frames()) {
            *frame = address;
            depth += 1;
        }
        let space = self.spaces.of_stack(sample.thread.pid);
        // In the middle of an exec the registers are still those of the program that is gone.
        let user = sample.user.as_ref().filter(|user| {
            depth == 0 || !space.was_executed || space.modules.find(user.registers.pc).is_some()
        });
        let mut end = None;
        if let Some(user) = user {
            let (walked, how) = self.walk_user(user, due, &space.modules, &mut frames[depth..]);
            depth += walked;
            end = Some(judged(how, &space.modules, frames[depth - 1]));
        }
        let stack = self.table.intern(sample.thread.pid, space.era, &space.modules, &frames[..depth]);
        self.frames = frames;
        if let Some(end) = end {
            self.count_end(end, source);
        }
        (stack, end)
    }

    /// Unwinds the user's part, unless the drain has done so already. Returns the number of frames.
    fn walk_user(
        &self,
        user: &UserSide<'_>,
        due: &Due<'_>,
        modules: &Modules,
        frames: &mut [u64],
    ) -> (usize, End) {
        if let Some(ready) = due.unwound.stack(due.offset) {
            let kept = &ready[..ready.len().min(frames.len())];
            frames[..kept.len()].copy_from_slice(kept);
            return (kept.len(), End::Rooted);
        }
        let mut dump = Dump::new(user.registers.sp, user.stack);
        let walked = walk(modules, &user.registers, &mut dump, frames);
        let beyond = dump.missed().and_then(|missed| missed.checked_sub(user.registers.sp));
        if walked.end != End::Rooted && beyond.is_some_and(|beyond| beyond < LARGEST_DUMP) {
            self.counters.cut_nearby.fetch_add(1, Ordering::Relaxed);
        }
        (walked.depth, walked.end)
    }

    fn count_end(&mut self, end: End, source: EventSource) {
        // Only samples of running threads can be completed eagerly, so only they count towards that decision.
        let is_cpu = source == EventSource::Cpu;
        if is_cpu {
            self.counters.stacks.fetch_add(1, Ordering::Relaxed);
        }
        let End::Truncated(reason) = end else {
            self.quality.rooted += 1;
            return;
        };
        self.quality.truncated += 1;
        match reason {
            Reason::OutOfStack => {
                self.quality.out_of_dump += 1;
                self.counters.cut.fetch_add(u64::from(is_cpu), Ordering::Relaxed);
            }
            Reason::NoRule | Reason::NoModule => self.quality.no_rule += 1,
            _ => {}
        }
    }

    /// Stores a stack of `pid`, leaf first.
    pub(super) fn intern(&mut self, pid: u32, frames: &[u64]) -> StackNumber {
        let space = self.spaces.of_stack(pid);
        self.table.intern(pid, space.era, &space.modules, frames)
    }

    /// Returns the stack that stands for "unknown".
    pub(super) fn unknown(&mut self) -> StackNumber {
        self.table.intern(0, Era::default(), &Modules::new(), &[])
    }

    /// Returns the stack of a thread that is not running.
    pub(crate) fn of_standing(&mut self, thread: ThreadOf, registers: &Registers) -> StackNumber {
        let mut frames = std::mem::take(&mut self.frames);
        let walked = self.walk_standing(thread, registers, &mut frames[..MAX_DEPTH]);
        let space = self.spaces.of_stack(thread.pid);
        let last = frames[..walked.depth].last().copied().unwrap_or(0);
        let end = judged(walked.end, &space.modules, last);
        self.count_end(end, EventSource::SyscallStack { is_regular: true });
        let stack = self.table.intern(thread.pid, space.era, &space.modules, &frames[..walked.depth]);
        self.frames = frames;
        stack
    }

    /// Returns whether all code on the stack of a thread that is not running is known.
    pub(crate) fn knows_code_of(&mut self, thread: ThreadOf, registers: &Registers) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let walked = self.walk_standing(thread, registers, &mut frames[..MAX_DEPTH]);
        self.frames = frames;
        walked.end != End::Truncated(Reason::NoModule)
    }

    /// Unwinds a thread that is not running.
    pub(super) fn walk_standing(
        &mut self,
        thread: ThreadOf,
        registers: &Registers,
        frames: &mut [u64],
    ) -> Unwound {
        let space = self.spaces.of(thread.pid);
        let live = &mut self.live;
        live.begin(thread.pid, machine::monotonic_nanos());
        walk(&space.modules, registers, &mut |address: u64| live.read(address), frames)
    }
}

/// Judges the end of a stack: the start of a process, in the dynamic loader, is assembly without unwind information,
/// and has no caller.
fn judged(end: End, modules: &Modules, last: u64) -> End {
    let is_loader = |module: &Module| {
        let name = module.name.rsplit('/').next().unwrap_or("");
        name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so")
    };
    match end {
        End::Truncated(Reason::NoRule) if modules.find(last).is_some_and(is_loader) => End::Rooted,
        end => end,
    }
}
