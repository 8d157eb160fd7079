//! 64-bit x86: the return address is always the word below the CFA.

use super::{Registers, side_step};
use crate::end::Reason;
use crate::memory::Memory;
use crate::rule::{Base, MAX_SAVED, Rule, Saved};
use crate::rule_cache::FrameRule;
use crate::table::Table;

/// DWARF's number of `rbp`.
pub(crate) const FRAME_POINTER: u16 = 6;
/// DWARF's number of `rsp`.
pub(crate) const STACK_POINTER: u16 = 7;
/// DWARF's number of the return address.
pub(crate) const RETURN_ADDRESS: u16 = 16;

/// In a packed row, `saved` = n means: `rbp` at CFA − 8n.
pub(crate) fn packed(frame_pointer: Saved, return_address: Saved) -> Option<u8> {
    match (frame_pointer, return_address) {
        (Saved::Same, Saved::AtCfa(-8)) => Some(0),
        (Saved::AtCfa(offset), Saved::AtCfa(-8)) if offset < 0 && offset % 8 == 0 => {
            u8::try_from(-offset / 8).ok().filter(|&n| n <= MAX_SAVED)
        }
        _ => None,
    }
}

/// Computes the registers in a frame's caller from those in the frame.
#[inline(always)]
pub(crate) fn step(
    table: &Table,
    rule: Rule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    let Rule::Frame { base, offset, saved } = rule else {
        return special_step(table, rule, registers, memory);
    };
    frame_step(FrameRule { base, offset, saved }, registers, memory)
}

/// [`step`] by an ordinary frame's rule.
#[inline(always)]
pub(crate) fn frame_step(
    FrameRule { base, offset, saved }: FrameRule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    let cfa = base.of(registers).wrapping_add(u64::from(offset));
    let saved_at = cfa.wrapping_sub(8 * u64::from(saved));
    // Compilers do not note that an epilogue has popped the register: below the stack pointer its place is
    // free again, and the register has its value back.
    let fp = if saved == 0 || saved_at < registers.sp {
        registers.fp
    } else {
        memory.read(saved_at).ok_or(Reason::OutOfStack)?
    };
    let pc = memory.read(cfa.wrapping_sub(8)).ok_or(Reason::OutOfStack)?;
    advance(registers, cfa, fp, pc)
}

#[cold]
fn special_step(
    table: &Table,
    rule: Rule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    match rule {
        Rule::Plt { threshold } => {
            let pushed = u64::from(registers.pc & 15 >= u64::from(threshold)) * 8;
            let cfa = registers.sp.wrapping_add(8 + pushed);
            let pc = memory.read(cfa.wrapping_sub(8)).ok_or(Reason::OutOfStack)?;
            advance(registers, cfa, registers.fp, pc)
        }
        Rule::Signal => signal(registers, memory),
        Rule::Side(index) => {
            let rule = table.side_rule(index).ok_or(Reason::NoRule)?;
            let (cfa, fp, pc) = side_step(rule, registers, memory)?;
            advance(registers, cfa, fp, pc.ok_or(Reason::NoRule)?)
        }
        Rule::OtherStack => Ok(other_stack(registers, memory).unwrap_or_default()),
        Rule::Frame { .. } | Rule::Root | Rule::Unknown => Err(Reason::NoRule),
    }
}

/// Steps to the stack that the frame pointer is of, which may be anywhere.
fn other_stack(registers: &Registers, memory: &mut impl Memory) -> Option<Registers> {
    let (fp, pc) = (memory.read(registers.fp)?, memory.read(registers.fp.checked_add(8)?)?);
    Some(Registers { pc, sp: registers.fp.checked_add(16)?, fp, lr: 0 })
}

#[inline(always)]
fn advance(from: &Registers, cfa: u64, fp: u64, pc: u64) -> Result<Registers, Reason> {
    // A call pushes its return address, so a caller's stack pointer is always higher.
    if cfa <= from.sp {
        return Err(Reason::NoProgress);
    }
    Ok(Registers { pc, sp: cfa, fp, lr: 0 })
}

/// Guesses the caller for code without a rule. A leaf that has pushed nothing has its return address on top of the
/// stack; otherwise the frame pointer may really be one. `is_code` must accept the return address.
#[cold]
pub(crate) fn guess(
    is_leaf: bool,
    registers: &Registers,
    memory: &mut impl Memory,
    is_code: impl Fn(u64) -> bool,
) -> Option<Registers> {
    if is_leaf
        && let Some(pc) = memory.read(registers.sp)
        && is_code(pc)
    {
        return Some(Registers { pc, sp: registers.sp.wrapping_add(8), ..*registers });
    }
    if registers.fp < registers.sp || !registers.fp.is_multiple_of(8) {
        return None;
    }
    let (fp, pc) = (memory.read(registers.fp)?, memory.read(registers.fp.checked_add(8)?)?);
    is_code(pc).then(|| Registers { pc, sp: registers.fp.wrapping_add(16), fp, lr: 0 })
}

/// The kernel leaves a `ucontext_t` at the stack pointer of the trampoline.
#[cold]
fn signal(registers: &Registers, memory: &mut impl Memory) -> Result<Registers, Reason> {
    const GENERAL: u64 = 40;
    let mut register =
        |number: u64| memory.read(registers.sp.wrapping_add(GENERAL + 8 * number)).ok_or(Reason::OutOfStack);
    Ok(Registers { fp: register(10)?, sp: register(15)?, pc: register(16)?, lr: 0 })
}

/// Recognizes the expression that linkers write for lazy PLT stubs:
/// `rsp + 8 + ((rip & 15) >= threshold) * 8`.
pub(crate) fn plt_threshold(expression: &[u8]) -> Option<u8> {
    const LIT0: u8 = 0x30;
    match *expression {
        // breg7 8; breg16 0; lit15; and; lit<threshold>; ge; lit3; shl; plus
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, threshold, 0x2a, 0x33, 0x24, 0x22]
            if (LIT0..LIT0 + 16).contains(&threshold) =>
        {
            Some(threshold - LIT0)
        }
        _ => None,
    }
}

/// Returns the base that a DWARF register number stands for.
pub(crate) fn base(register: u16) -> Option<Base> {
    match register {
        STACK_POINTER => Some(Base::StackPointer),
        FRAME_POINTER => Some(Base::FramePointer),
        _ => None,
    }
}

/// The registers of the running thread.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[allow(unsafe_code, reason = "registers can be read by assembly only")]
pub(crate) mod native {
    use super::Registers;

    #[inline(always)]
    pub(crate) fn here() -> Registers {
        let (pc, sp, fp): (u64, u64, u64);
        // SAFETY: copies three registers, and touches neither memory nor flags.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]", "mov {sp}, rsp", "mov {fp}, rbp",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        Registers { pc, sp, fp, lr: 0 }
    }

    #[inline]
    pub(crate) fn of_context(context: &libc::ucontext_t) -> Registers {
        let general = &context.uc_mcontext.gregs;
        Registers {
            pc: general[libc::REG_RIP as usize] as u64,
            sp: general[libc::REG_RSP as usize] as u64,
            fp: general[libc::REG_RBP as usize] as u64,
            lr: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plt_expression_is_recognized() {
        let expression = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(plt_threshold(&expression), Some(11));
        assert_eq!(plt_threshold(&expression[1..]), None);
    }

    #[test]
    fn a_stack_at_the_very_end_of_memory_is_survived() {
        let registers = Registers { sp: u64::MAX - 7, ..Registers::default() };
        let caller = guess(true, &registers, &mut |_: u64| Some(7), |_| true);
        assert_eq!(caller.map(|caller| (caller.pc, caller.sp)), Some((7, 0)));
    }

    #[test]
    fn a_step_reads_the_return_address_below_the_cfa() {
        let table = crate::table::TableBuilder::new(crate::Architecture::X86_64);
        let mut table = table;
        table.function(0, 1);
        table.rule(0, Rule::Unknown);
        let table = table.finish().expect("one function");
        let words = [0u64, 0xbeef, 0xfb, 0x40_1000];
        let mut memory = |address: u64| words.get((address.checked_sub(0x7000)? / 8) as usize).copied();
        let from = Registers { pc: 0x40_2000, sp: 0x7000, fp: 1, lr: 0 };
        let rule = Rule::Frame { base: Base::StackPointer, offset: 32, saved: 2 };
        let caller = step(&table, rule, &from, &mut memory).expect("readable");
        assert_eq!(caller, Registers { pc: 0x40_1000, sp: 0x7020, fp: 0xfb, lr: 0 });
        let rule = Rule::Frame { base: Base::StackPointer, offset: 16, saved: 3 };
        let popped = step(&table, rule, &from, &mut |_| Some(0x40_1000)).expect("readable");
        assert_eq!(popped.fp, 1, "below the stack pointer nothing is saved any more");
        let rule = Rule::Frame { base: Base::FramePointer, offset: 32, saved: 0 };
        assert_eq!(step(&table, rule, &from, &mut memory), Err(Reason::OutOfStack));
    }
}
