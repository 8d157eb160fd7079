//! Walks a stack from frame to frame.

use crate::arch::{Architecture, Registers, aarch64, x86_64};
use crate::end::{End, Reason};
use crate::memory::{AtAGlance, Memory};
use crate::module::Modules;
use crate::rule::Rule;
use crate::rule_cache::{FrameRule, RuleCache};
use crate::table::Table;

/// What a [`walk`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Unwound {
    /// How many addresses were written, leaf first.
    pub depth: usize,
    /// Whether the stack is complete.
    pub end: End,
}

/// Follows the stack from `registers` and writes an address for each frame into `frames`, leaf first (see
/// the crate's introduction for what the addresses are).
///
/// Allocates nothing, takes no lock, and is async-signal-safe if `memory` is.
#[inline]
pub fn walk<M: Memory>(
    modules: &Modules,
    registers: &Registers,
    memory: &mut M,
    frames: &mut [u64],
) -> Unwound {
    let mut registers = *registers;
    // The frame's address: the pc itself, or inside the call before the return address.
    let mut at = registers.pc;
    let mut is_exact = true;
    let mut near = 0;
    let mut depth = 0;
    while depth < frames.len() {
        let followed = follow(&modules.met, registers, at, memory, &mut frames[depth..]);
        if followed.depth > 0 {
            depth += followed.depth;
            (registers, at, is_exact) = (followed.registers, followed.at, false);
        }
        let Some(frame) = frames.get_mut(depth) else { break };
        *frame = at;
        depth += 1;
        if modules.met.is_root(at) {
            return Unwound { depth, end: End::Rooted };
        }
        // A known rule, and a stack that takes more than a glance.
        if let Some(rule) = modules.met.get(at) {
            match frame_step(rule, &registers, memory) {
                Ok(caller) if caller.pc == 0 => return Unwound { depth, end: End::Rooted },
                Ok(caller) => registers = caller,
                Err(reason) => return Unwound { depth, end: End::Truncated(reason) },
            }
            (at, is_exact) = (registers.pc.wrapping_sub(1), false);
            continue;
        }
        let module = modules.find_near(at, &mut near);
        let found = module.and_then(|module| module.rule(at));
        match found {
            Some((table, Rule::Frame { base, offset, saved }))
                if table.architecture() == Architecture::NATIVE =>
            {
                modules.met.put(at, FrameRule { base, offset, saved });
            }
            Some((_, Rule::Root)) => modules.met.put_root(at),
            _ => {}
        }
        let place = FrameCode { modules, is_in_module: module.is_some(), found, is_exact };
        // A copy, because a value that is borrowed could not stay in registers.
        let here = registers;
        match place.uncommon_step(&here, memory) {
            Ok(caller) => registers = caller,
            Err(end) => return Unwound { depth, end },
        }
        is_exact = matches!(found, Some((_, Rule::Signal)));
        at = registers.pc.wrapping_sub(u64::from(!is_exact));
    }
    Unwound { depth: frames.len(), end: End::Truncated(Reason::Full) }
}

/// How far [`follow`] got: how many frames were written, and the address `at` of the next one.
struct Followed {
    depth: usize,
    registers: Registers,
    at: u64,
}

/// Steps through ordinary frames that were met before, up to the first that is something else. Kept apart
/// and small, so that all of it stays in the machine's registers.
#[inline(always)]
fn follow<M: Memory>(
    met: &RuleCache,
    mut registers: Registers,
    mut at: u64,
    memory: &mut M,
    frames: &mut [u64],
) -> Followed {
    let mut memory = AtAGlance(memory);
    let mut depth = 0;
    for frame in frames {
        let Some(rule) = met.get(at) else { break };
        match frame_step(rule, &registers, &mut memory) {
            Ok(caller) if caller.pc != 0 => registers = caller,
            _ => break,
        }
        *frame = at;
        depth += 1;
        at = registers.pc.wrapping_sub(1);
    }
    Followed { depth, registers, at }
}

/// Takes a step by the rule of an ordinary frame of this machine.
#[inline(always)]
pub(crate) fn frame_step(
    rule: FrameRule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    match Architecture::NATIVE {
        Architecture::X86_64 => x86_64::frame_step(rule, registers, memory),
        Architecture::Aarch64 => aarch64::frame_step(rule, registers, memory),
    }
}

#[inline(always)]
pub(crate) fn step(
    table: &Table,
    rule: Rule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    match table.architecture() {
        Architecture::X86_64 => x86_64::step(table, rule, registers, memory),
        Architecture::Aarch64 => aarch64::step(table, rule, registers, memory),
    }
}

/// What is known about the code of a frame.
pub(crate) struct FrameCode<'a> {
    pub(crate) modules: &'a Modules,
    pub(crate) is_in_module: bool,
    pub(crate) found: Option<(&'a Table, Rule)>,
    /// Whether the frame is at its pc, not after a call.
    pub(crate) is_exact: bool,
}

impl FrameCode<'_> {
    /// Handles anything but an ordinary frame that was met before.
    #[inline(never)]
    pub(crate) fn uncommon_step(
        &self,
        registers: &Registers,
        memory: &mut impl Memory,
    ) -> Result<Registers, End> {
        let stepped = match self.found {
            Some((_, Rule::Root)) => return Err(End::Rooted),
            Some((_, Rule::Unknown)) | None => {
                let reason = if self.is_in_module { Reason::NoRule } else { Reason::NoModule };
                guess(self.modules, self.is_exact, registers, memory).ok_or(reason)
            }
            Some((table, rule)) => step(table, rule, registers, memory),
        };
        match stepped {
            Ok(caller) if caller.pc == 0 => Err(End::Rooted),
            Ok(caller) => Ok(caller),
            Err(reason) => Err(End::Truncated(reason)),
        }
    }
}

/// Handles code without a rule: hand-written assembly, a library without tables, a jump to nowhere.
#[cold]
fn guess(
    modules: &Modules,
    is_leaf: bool,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Option<Registers> {
    let is_code = |pc: u64| modules.find(pc.wrapping_sub(1)).is_some();
    match modules.architecture() {
        Architecture::X86_64 => x86_64::guess(is_leaf, registers, memory, is_code),
        Architecture::Aarch64 => aarch64::guess(is_leaf, registers, memory, is_code),
    }
}
