//! Unwinding the same thread again and again.
//!
//! The registers that a walk starts from and the words that it reads determine it. So when a frame is at the same
//! place as in the previous walk, and the words that were read from there on are still on the stack, the rest of the
//! stack is the same: one comparison per frame instead of a search. Programs allocate from the same few outer frames
//! for a long time, so this is most of every stack.

use super::stack::LiveStack;
use crate::arch::Registers;
use crate::end::{End, Reason};
use crate::memory::Memory;
use crate::module::Modules;
use crate::rule::{Base, Rule};
use crate::rule_cache::FrameRule;
use crate::walk::{FrameCode, frame_step, step};

/// The stack of one thread as of its last [`Repeated::unwind`].
#[derive(Debug)]
pub struct Repeated {
    /// The thread's first frame first.
    frames: Vec<RepeatedFrame>,
    /// The words that determine the walk, in the order of the frames that were left by them.
    words: Vec<Word>,
    /// What the current walk has found, leaf first.
    fresh: Vec<Fresh>,
    end: End,
}

/// One frame of a [`Repeated`] stack.
#[derive(Clone, Copy, Debug)]
pub struct RepeatedFrame {
    /// The frame's address, as the crate's introduction defines it.
    pub address: u64,
    /// For the caller: 0 in a new frame, and kept for as long as the frame and all frames outside it stay.
    pub tag: u32,
    /// Whether the walk from here on depends on the frame pointer.
    needs_fp: bool,
    /// The words up to this count determine the walk from this frame on.
    word_count: u32,
    sp: u64,
    fp: u64,
}

/// A word that a walk has read.
#[derive(Clone, Copy, Debug)]
struct Word {
    address: u64,
    value: u64,
}

impl Word {
    /// Stands for a step that comparing words cannot repeat.
    const NEVER: Self = Self { address: 0, value: 0 };
}

/// A frame that was just walked, and what determined the step to its caller.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    frame: RepeatedFrame,
    /// The caller's frame pointer, if it is not still in its register.
    saved_fp: Option<Word>,
    /// The return address; none for the first frame of a thread.
    return_address: Option<Word>,
}

/// How much of the stack is new.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RepeatedWalk {
    /// How many of the outermost frames are those of the previous walk, with their tags.
    pub kept: usize,
    /// Whether the stack is complete.
    pub end: End,
}

impl Default for Repeated {
    fn default() -> Self {
        Self::new()
    }
}

impl Repeated {
    /// Deeper stacks than this are cut at the side of the thread's start.
    const MAX_DEPTH: usize = 512;

    /// Makes one that knows nothing yet.
    pub const fn new() -> Self {
        Self { frames: Vec::new(), words: Vec::new(), fresh: Vec::new(), end: End::Truncated(Reason::Full) }
    }

    /// Forgets the previous walk: the modules have changed, or another thread takes over.
    pub fn forget(&mut self) {
        self.frames.clear();
    }

    /// Returns the frames, that of the thread's start first.
    pub fn frames(&self) -> &[RepeatedFrame] {
        &self.frames
    }

    /// Returns the same, so that tags can be set.
    pub fn frames_mut(&mut self) -> &mut [RepeatedFrame] {
        &mut self.frames
    }

    /// Unwinds the running thread. `caller` holds the registers of a frame that has made a call: its `pc` is the
    /// return address. Reads nothing below its `sp`. Allocates only when stacks get deeper than before.
    pub fn unwind(&mut self, modules: &Modules, caller: &Registers) -> RepeatedWalk {
        let mut memory = LiveStack::new(caller.sp);
        let (kept, end) = self.walk(modules, caller, &mut memory);
        if kept < self.frames.len() || !self.fresh.is_empty() {
            self.adopt_fresh(kept);
        }
        self.end = end;
        RepeatedWalk { kept, end }
    }

    /// Fills `fresh` up to a frame from which on nothing has changed; returns how many frames that leaves.
    #[inline]
    fn walk(&mut self, modules: &Modules, caller: &Registers, memory: &mut LiveStack) -> (usize, End) {
        let mut walker = Walker {
            modules,
            registers: *caller,
            at: caller.pc.wrapping_sub(1),
            is_exact: false,
            near: 0,
            memory,
        };
        self.fresh.clear();
        let mut old = self.frames.len();
        while self.fresh.len() < Self::MAX_DEPTH {
            while old > 0 && self.frames[old - 1].sp < walker.registers.sp {
                old -= 1;
            }
            if old > 0 && self.frames[old - 1].is_at(walker.at, &walker.registers) {
                match self.innermost_change(old, walker.memory) {
                    None => return (old, self.end),
                    // Frames outside it may be met again.
                    Some(changed) => old = changed,
                }
            }
            let (frame, end) = walker.step();
            self.fresh.push(frame);
            if let Some(end) = end {
                return (0, end);
            }
        }
        (0, End::Truncated(Reason::Full))
    }

    /// Returns the innermost of the outer `count` frames whose caller may have changed.
    #[inline]
    fn innermost_change(&self, count: usize, memory: &mut LiveStack) -> Option<usize> {
        let words = &self.words[..self.frames[count - 1].word_count as usize];
        let is_other = |word: &Word| word.address == 0 || memory.read(word.address) != Some(word.value);
        let changed = words.iter().rposition(is_other)?;
        Some(self.frames[..count].partition_point(|frame| frame.word_count as usize <= changed))
    }

    /// Puts the fresh frames on top of those that were kept.
    fn adopt_fresh(&mut self, kept: usize) {
        self.frames.truncate(kept);
        let caller = self.frames.last();
        let mut caller_needs_fp = caller.is_some_and(|frame| frame.needs_fp);
        self.words.truncate(caller.map_or(0, |frame| frame.word_count as usize));
        for fresh in self.fresh.iter().rev() {
            let mut frame = fresh.frame;
            frame.needs_fp |= fresh.saved_fp.is_none() && caller_needs_fp;
            self.words.extend(fresh.saved_fp.filter(|_| caller_needs_fp));
            self.words.extend(fresh.return_address);
            frame.word_count = self.words.len() as u32;
            caller_needs_fp = frame.needs_fp;
            self.frames.push(frame);
        }
    }
}

impl RepeatedFrame {
    #[inline]
    fn is_at(&self, at: u64, registers: &Registers) -> bool {
        self.sp == registers.sp && self.address == at && (!self.needs_fp || self.fp == registers.fp)
    }
}

/// The state of a walk.
struct Walker<'a> {
    modules: &'a Modules,
    registers: Registers,
    at: u64,
    is_exact: bool,
    near: usize,
    memory: &'a mut LiveStack,
}

impl Walker<'_> {
    /// Returns the current frame, and how the stack ends if it is the last one.
    #[inline]
    fn step(&mut self) -> (Fresh, Option<End>) {
        let Registers { sp, fp, .. } = self.registers;
        let frame = RepeatedFrame { address: self.at, tag: 0, needs_fp: true, word_count: 0, sp, fp };
        if let Some(rule) = self.modules.met.get(self.at) {
            let mut noted = Noted { memory: self.memory, reads: [Word::NEVER; 2], count: 0 };
            if let Ok(caller) = frame_step(rule, &self.registers, &mut noted) {
                return (noted.describe(frame, rule.base), self.go_to(caller, false));
            }
        }
        self.uncommon_step(Fresh { frame, saved_fp: None, return_address: Some(Word::NEVER) })
    }

    /// Handles a frame that was not met before, or is not an ordinary one.
    #[cold]
    fn uncommon_step(&mut self, mut fresh: Fresh) -> (Fresh, Option<End>) {
        let module = self.modules.find_near(self.at, &mut self.near);
        let found = module.and_then(|module| module.rule(self.at));
        match found {
            Some((table, rule @ Rule::Frame { base, offset, saved })) => {
                let mut noted = Noted { memory: self.memory, reads: [Word::NEVER; 2], count: 0 };
                if let Ok(caller) = step(table, rule, &self.registers, &mut noted) {
                    self.modules.met.put(self.at, FrameRule { base, offset, saved });
                    return (noted.describe(fresh.frame, base), self.go_to(caller, false));
                }
            }
            Some((_, Rule::Root)) => {
                (fresh.frame.needs_fp, fresh.return_address) = (false, None);
                return (fresh, Some(End::Rooted));
            }
            _ => {}
        }
        let is_in_module = module.is_some();
        let place = FrameCode { modules: self.modules, is_in_module, found, is_exact: self.is_exact };
        match place.uncommon_step(&self.registers, self.memory) {
            Ok(caller) => (fresh, self.go_to(caller, matches!(found, Some((_, Rule::Signal))))),
            Err(end) => (fresh, Some(end)),
        }
    }

    /// Moves on to the caller, unless there is none.
    #[inline]
    fn go_to(&mut self, caller: Registers, is_exact: bool) -> Option<End> {
        (self.registers, self.is_exact) = (caller, is_exact);
        self.at = caller.pc.wrapping_sub(u64::from(!is_exact));
        (caller.pc == 0).then_some(End::Rooted)
    }
}

/// Records what a step reads: the caller's frame pointer if it was saved, then the return address.
struct Noted<'a> {
    memory: &'a mut LiveStack,
    reads: [Word; 2],
    count: usize,
}

impl Memory for Noted<'_> {
    #[inline(always)]
    fn read(&mut self, address: u64) -> Option<u64> {
        let value = self.memory.read(address)?;
        if let Some(read) = self.reads.get_mut(self.count) {
            *read = Word { address, value };
        }
        self.count += 1;
        Some(value)
    }
}

impl Noted<'_> {
    #[inline(always)]
    fn describe(&self, frame: RepeatedFrame, base: Base) -> Fresh {
        let [first, second] = self.reads;
        let needs_fp = base == Base::FramePointer;
        match self.count {
            1 => Fresh {
                frame: RepeatedFrame { needs_fp, ..frame },
                saved_fp: None,
                return_address: Some(first),
            },
            2 => Fresh {
                frame: RepeatedFrame { needs_fp, ..frame },
                saved_fp: Some(first),
                return_address: Some(second),
            },
            // A return address that is still in its register cannot be compared.
            _ => Fresh { frame, saved_fp: None, return_address: Some(Word::NEVER) },
        }
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Compares the repeated walk with a full one, from the same caller.
    #[inline(never)]
    fn compare(repeated: &mut Repeated) -> RepeatedWalk {
        let modules = crate::live::modules();
        let mut frames = [0; 600];
        let here = Registers::here();
        let mut memory = LiveStack::new(here.sp);
        let whole = crate::walk(&modules, &here, &mut memory, &mut frames);
        // The frame of this function is left out: it is at its pc, not after a call.
        let (table, rule) =
            modules.find(here.pc).and_then(|module| module.rule(here.pc)).expect("our own code");
        let caller = step(table, rule, &here, &mut memory).expect("our own frame");
        let again = repeated.unwind(&modules, &caller);
        let walked: Vec<u64> = repeated.frames().iter().rev().map(|frame| frame.address).collect();
        assert_eq!(walked, frames[1..whole.depth]);
        assert_eq!(again.end, whole.end);
        let tags: Vec<u32> = repeated.frames()[..again.kept].iter().map(|frame| frame.tag).collect();
        assert!(tags.iter().enumerate().all(|(at, &tag)| tag as usize == at + 1), "{tags:?}");
        for (at, frame) in repeated.frames_mut().iter_mut().enumerate() {
            frame.tag = at as u32 + 1;
        }
        again
    }

    #[inline(never)]
    fn left(repeated: &mut Repeated, depth: usize) -> RepeatedWalk {
        if depth == 0 { black_box(compare(repeated)) } else { black_box(right(repeated, depth - 1)) }
    }

    #[inline(never)]
    fn right(repeated: &mut Repeated, depth: usize) -> RepeatedWalk {
        if depth == 0 {
            black_box(compare(repeated))
        } else if depth.is_multiple_of(3) {
            black_box(right(repeated, depth - 1))
        } else {
            black_box(left(repeated, depth - 1))
        }
    }

    #[test]
    fn what_is_kept_is_what_a_whole_walk_finds() {
        crate::live::refresh().expect("modules");
        let mut repeated = Repeated::new();
        for turn in 0..400usize {
            // Two functions with frames of one shape: the same places on the stack, different callers.
            let depth = turn * 7 % 23;
            let _ = if turn % 2 == 0 { left(&mut repeated, depth) } else { right(&mut repeated, depth) };
        }
    }

    #[test]
    fn the_same_stack_again_is_kept_whole_with_its_tags() {
        crate::live::refresh().expect("modules");
        let mut repeated = Repeated::new();
        let mut kept = Vec::new();
        for _ in 0..black_box(3) {
            kept.push(black_box(left(&mut repeated, 12)).kept);
        }
        assert_eq!(kept[0], 0);
        assert_eq!(kept[1..], [repeated.frames().len(); 2]);
        repeated.forget();
        assert_eq!(left(&mut repeated, 12).kept, 0);
    }
}
