//! Unwinding the same thread again and again.
//!
//! The registers that a walk starts from and the words that it reads determine it. So when a frame is at the same
//! place as in the previous walk, and the words that were read from there on are still on the stack, the rest of the
//! stack is the same: one comparison per frame instead of a search. Programs allocate from the same few outer frames
//! for a long time, so this is most of every stack.

use std::ops::Range;

use super::stack::{LiveStack, known_home, read_directly};
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
    /// What the current walk has found, leaf first; the rest is room.
    fresh: Vec<Fresh>,
    fresh_count: usize,
    end: End,
    /// The part of the thread's own stack that can be read.
    home: Range<u64>,
    /// This many of the first words are there.
    home_words: usize,
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

/// A frame that was just walked, and what determined the step to its caller. Each field is written where it stays: copying
/// a whole one right after its parts were written would wait for these writes.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    address: u64,
    sp: u64,
    fp: u64,
    /// Whether the caller's frame pointer depends on this one's, whatever the walk from there on needs.
    needs_fp: bool,
    /// How many of `words` are valid.
    word_count: u8,
    /// The caller's frame pointer, if it is not still in its register; then the return address, unless this is the first
    /// frame of a thread.
    words: [Word; 2],
}

impl Fresh {
    const EMPTY: Self =
        Self { address: 0, sp: 0, fp: 0, needs_fp: true, word_count: 1, words: [Word::NEVER; 2] };

    /// Starts with a frame that comparing words cannot repeat.
    #[inline(always)]
    fn begin(&mut self, at: u64, registers: &Registers) {
        (self.address, self.sp, self.fp) = (at, registers.sp, registers.fp);
        self.forget_words();
    }

    #[inline(always)]
    fn forget_words(&mut self) {
        (self.needs_fp, self.word_count, self.words[0].address) = (true, 1, Word::NEVER.address);
    }
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
        Self {
            frames: Vec::new(),
            words: Vec::new(),
            fresh: Vec::new(),
            fresh_count: 0,
            end: End::Truncated(Reason::Full),
            home: 0..0,
            home_words: 0,
        }
    }

    /// Forgets the previous walk: the modules have changed, or another thread takes over.
    pub fn forget(&mut self) {
        self.frames.clear();
        (self.home, self.home_words) = (0..0, 0);
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
        let mut memory = self.memory(caller.sp);
        let (kept, end) = self.walk(modules, caller, &mut memory);
        if kept < self.frames.len() || self.fresh_count > 0 {
            self.adopt_fresh(kept);
        }
        self.end = end;
        RepeatedWalk { kept, end }
    }

    #[inline]
    fn memory(&mut self, sp: u64) -> LiveStack {
        if !self.home.contains(&sp) {
            match known_home(sp) {
                Some(home) => self.home = home,
                None => return LiveStack::new(sp),
            }
        }
        LiveStack::on_home(sp, &self.home)
    }

    /// Fills `fresh` up to a frame from which on nothing has changed; returns how many frames that leaves.
    #[inline]
    fn walk(&mut self, modules: &Modules, caller: &Registers, memory: &mut LiveStack) -> (usize, End) {
        // Copies, which stay in the machine's registers because nothing borrows them.
        let (mut registers, mut at) = (*caller, caller.pc.wrapping_sub(1));
        let (mut is_exact, mut near) = (false, 0);
        let mut old = self.frames.len();
        self.fresh_count = 0;
        while self.fresh_count < Self::MAX_DEPTH {
            while old > 0 && self.frames[old - 1].sp < registers.sp {
                old -= 1;
            }
            if old > 0 && self.frames[old - 1].is_at(at, &registers) {
                match self.innermost_change(old, memory) {
                    None => return (old, self.end),
                    // Frames outside it may be met again.
                    Some(changed) => old = changed,
                }
            }
            let fresh = self.next_fresh();
            fresh.begin(at, &registers);
            if let Some(rule) = modules.met.get(at)
                && let Ok(caller) =
                    Noted::step(memory, fresh, rule.base, |noted| frame_step(rule, &registers, noted))
            {
                (registers, at, is_exact) = (caller, caller.pc.wrapping_sub(1), false);
            } else {
                fresh.forget_words();
                let place = Uncommon { modules, registers, at, is_exact };
                match place.step(&mut near, fresh, memory) {
                    Ok((caller, exact)) => {
                        (registers, is_exact) = (caller, exact);
                        at = caller.pc.wrapping_sub(u64::from(!exact));
                    }
                    Err(end) => return (0, end),
                }
            }
            if registers.pc == 0 {
                return (0, End::Rooted);
            }
        }
        (0, End::Truncated(Reason::Full))
    }

    /// Returns the place of the next fresh frame.
    #[inline(always)]
    fn next_fresh(&mut self) -> &mut Fresh {
        let at = self.fresh_count;
        self.fresh_count += 1;
        if at == self.fresh.len() {
            self.fresh.push(Fresh::EMPTY);
        }
        &mut self.fresh[at]
    }

    /// Returns the innermost of the outer `count` frames whose caller may have changed.
    #[inline]
    fn innermost_change(&self, count: usize, memory: &mut LiveStack) -> Option<usize> {
        let words = &self.words[..self.frames[count - 1].word_count as usize];
        let same = if words.len() <= self.home_words { self.unchanged_at_the_end(words) } else { 0 };
        let is_other = |word: &Word| word.address == 0 || memory.read(word.address) != Some(word.value);
        let changed = words[..words.len() - same].iter().rposition(is_other)?;
        Some(self.frames[..count].partition_point(|frame| frame.word_count as usize <= changed))
    }

    /// Returns how many of the last words are certainly still on the stack: whole groups of them, which are compared
    /// without a branch for each word.
    #[inline]
    fn unchanged_at_the_end(&self, words: &[Word]) -> usize {
        const GROUP: usize = 8;
        let changed = |word: &Word| {
            // SAFETY: the word is one of the first `home_words`, so it is in `home`, on this thread's stack. It belongs
            // to a frame that the thread is still in, or to one that would be outside it.
            unsafe { read_directly(word.address) ^ word.value }
        };
        let is_same = |group: &&[Word]| group.iter().map(changed).fold(0, |all, one| all | one) == 0;
        words.rchunks_exact(GROUP).take_while(is_same).count() * GROUP
    }

    /// Puts the fresh frames on top of those that were kept.
    fn adopt_fresh(&mut self, kept: usize) {
        self.frames.truncate(kept);
        let caller = self.frames.last();
        let mut caller_needs_fp = caller.is_some_and(|frame| frame.needs_fp);
        self.words.truncate(caller.map_or(0, |frame| frame.word_count as usize));
        self.home_words = self.home_words.min(self.words.len());
        let all = std::mem::take(&mut self.fresh);
        for fresh in all[..self.fresh_count].iter().rev() {
            let saves_fp = fresh.word_count == 2;
            let needs_fp = fresh.needs_fp || !saves_fp && caller_needs_fp;
            if saves_fp && caller_needs_fp {
                self.push_word(fresh.words[0]);
            }
            if fresh.word_count > 0 {
                self.push_word(fresh.words[usize::from(saves_fp)]);
            }
            let word_count = self.words.len() as u32;
            let Fresh { address, sp, fp, .. } = *fresh;
            self.frames.push(RepeatedFrame { address, tag: 0, needs_fp, word_count, sp, fp });
            caller_needs_fp = needs_fp;
        }
        self.fresh = all;
    }

    #[inline(always)]
    fn push_word(&mut self, word: Word) {
        let is_home = self.home.start <= word.address && word.address < self.home.end.saturating_sub(7);
        if is_home && self.home_words == self.words.len() {
            self.home_words += 1;
        }
        self.words.push(word);
    }
}

impl RepeatedFrame {
    #[inline]
    fn is_at(&self, at: u64, registers: &Registers) -> bool {
        self.sp == registers.sp && self.address == at && (!self.needs_fp || self.fp == registers.fp)
    }
}

/// A frame that was not met before, or is not an ordinary one.
struct Uncommon<'a> {
    modules: &'a Modules,
    registers: Registers,
    at: u64,
    is_exact: bool,
}

impl Uncommon<'_> {
    /// Returns the caller, and whether it is at its pc, not after a call.
    #[cold]
    fn step(
        &self,
        near: &mut usize,
        fresh: &mut Fresh,
        memory: &mut LiveStack,
    ) -> Result<(Registers, bool), End> {
        let module = self.modules.find_near(self.at, near);
        let found = module.and_then(|module| module.rule(self.at));
        match found {
            Some((table, rule @ Rule::Frame { base, offset, saved })) => {
                let stepped =
                    Noted::step(memory, fresh, base, |noted| step(table, rule, &self.registers, noted));
                if let Ok(caller) = stepped {
                    self.modules.met.put(self.at, FrameRule { base, offset, saved });
                    return Ok((caller, false));
                }
                fresh.forget_words();
            }
            Some((_, Rule::Root)) => {
                (fresh.needs_fp, fresh.word_count) = (false, 0);
                return Err(End::Rooted);
            }
            _ => {}
        }
        let place = FrameCode {
            modules: self.modules,
            is_in_module: module.is_some(),
            found,
            is_exact: self.is_exact,
        };
        let caller = place.uncommon_step(&self.registers, memory)?;
        Ok((caller, matches!(found, Some((_, Rule::Signal)))))
    }
}

/// Records what a step reads: the caller's frame pointer if it was saved, then the return address.
struct Noted<'a> {
    memory: &'a mut LiveStack,
    words: &'a mut [Word; 2],
    count: usize,
}

impl Memory for Noted<'_> {
    #[inline(always)]
    fn read(&mut self, address: u64) -> Option<u64> {
        let value = self.memory.read(address)?;
        if let Some(word) = self.words.get_mut(self.count) {
            (word.address, word.value) = (address, value);
        }
        self.count += 1;
        Some(value)
    }
}

impl Noted<'_> {
    /// Takes a step by a rule with this base, and writes down what determined it.
    #[inline(always)]
    fn step(
        memory: &mut LiveStack,
        fresh: &mut Fresh,
        base: Base,
        step: impl FnOnce(&mut Noted<'_>) -> Result<Registers, Reason>,
    ) -> Result<Registers, Reason> {
        let mut noted = Noted { memory, words: &mut fresh.words, count: 0 };
        let caller = step(&mut noted)?;
        match noted.count {
            count @ 1..=2 => (fresh.needs_fp, fresh.word_count) = (base == Base::FramePointer, count as u8),
            // A return address that is still in its register cannot be compared.
            _ => fresh.forget_words(),
        }
        Ok(caller)
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
