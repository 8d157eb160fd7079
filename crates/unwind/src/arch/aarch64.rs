//! 64-bit Arm: the return address is in `x30` until a function saves it, nearly always next to `x29`.

use super::{Registers, side_step};
use crate::end::Reason;
use crate::memory::Memory;
use crate::rule::{Base, MAX_SAVED, Rule, Saved};
use crate::rule_cache::FrameRule;
use crate::table::Table;

/// DWARF's number of `x29`.
pub(crate) const FRAME_POINTER: u16 = 29;
/// DWARF's number of `sp`.
pub(crate) const STACK_POINTER: u16 = 31;
/// DWARF's number of `x30`.
pub(crate) const RETURN_ADDRESS: u16 = 30;

/// The most bits that a user-space address has; pointer authentication signs the others.
const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// Returns a return address without its signature. How many bits are signed depends on the kernel (addresses of 39,
/// 42, 47 or 48 bits), and the processor knows; when this runs on another kind of machine, 48 are assumed.
#[inline(always)]
fn strip(lr: u64) -> u64 {
    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    let lr = native::strip(lr);
    lr & ADDRESS_BITS
}

/// In a packed row, `saved` = n means: `x29` at CFA − 8n and `x30` in the word after it.
pub(crate) fn packed(frame_pointer: Saved, return_address: Saved) -> Option<u8> {
    match (frame_pointer, return_address) {
        (Saved::Same, Saved::Same) => Some(0),
        (Saved::AtCfa(fp), Saved::AtCfa(lr)) if fp < 0 && fp % 8 == 0 && lr == fp + 8 => {
            u8::try_from(-fp / 8).ok().filter(|&n| n <= MAX_SAVED)
        }
        _ => None,
    }
}

/// Computes the registers in a frame's caller from those in the frame.
#[inline]
pub(crate) fn step(
    table: &Table,
    rule: Rule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    match rule {
        Rule::Frame { base, offset, saved } => {
            frame_step(FrameRule { base, offset, saved }, registers, memory)
        }
        Rule::Signal => signal(registers, memory),
        Rule::Side(index) => {
            let rule = table.side_rule(index).ok_or(Reason::NoRule)?;
            let (cfa, fp, lr) = side_step(rule, registers, memory)?;
            advance(registers, cfa, fp, lr.unwrap_or(registers.lr))
        }
        Rule::Root | Rule::Unknown | Rule::Plt { .. } | Rule::OtherStack => Err(Reason::NoRule),
    }
}

/// [`step`] by an ordinary frame's rule.
#[inline(always)]
pub(crate) fn frame_step(
    FrameRule { base, offset, saved }: FrameRule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Registers, Reason> {
    let cfa = base.of(registers).wrapping_add(u64::from(offset));
    if saved == 0 {
        return advance(registers, cfa, registers.fp, registers.lr);
    }
    let at = cfa.wrapping_sub(8 * u64::from(saved));
    let fp = memory.read(at).ok_or(Reason::OutOfStack)?;
    let lr = memory.read(at.wrapping_add(8)).ok_or(Reason::OutOfStack)?;
    advance(registers, cfa, fp, lr)
}

#[inline]
fn advance(from: &Registers, cfa: u64, fp: u64, lr: u64) -> Result<Registers, Reason> {
    let pc = strip(lr);
    // A leaf may use no stack at all, but then its caller is another function.
    if cfa < from.sp || (cfa == from.sp && pc == from.pc) {
        return Err(Reason::NoProgress);
    }
    // The caller's own `x30` is wherever the caller saved it: the value now in the register is used up.
    Ok(Registers { pc, sp: cfa, fp, lr })
}

/// Guesses the caller for code without a rule. A leaf has its return address in `x30`; otherwise the frame pointer
/// may really be one. `is_code` must accept the return address.
#[cold]
pub(crate) fn guess(
    is_leaf: bool,
    registers: &Registers,
    memory: &mut impl Memory,
    is_code: impl Fn(u64) -> bool,
) -> Option<Registers> {
    let pc = strip(registers.lr);
    if is_leaf && is_code(pc) {
        return Some(Registers { pc, ..*registers });
    }
    if registers.fp < registers.sp || !registers.fp.is_multiple_of(8) {
        return None;
    }
    let (fp, lr) = (memory.read(registers.fp)?, memory.read(registers.fp.checked_add(8)?)?);
    let pc = strip(lr);
    is_code(pc).then(|| Registers { pc, sp: registers.fp.wrapping_add(16), fp, lr })
}

/// The kernel leaves a `siginfo_t` (128 bytes) and a `ucontext_t` at the stack pointer of the trampoline.
#[cold]
fn signal(registers: &Registers, memory: &mut impl Memory) -> Result<Registers, Reason> {
    const GENERAL: u64 = 128 + 176 + 8;
    let mut register =
        |number: u64| memory.read(registers.sp.wrapping_add(GENERAL + 8 * number)).ok_or(Reason::OutOfStack);
    Ok(Registers { fp: register(29)?, lr: register(30)?, sp: register(31)?, pc: register(32)? })
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
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
#[allow(unsafe_code, reason = "registers can be read by assembly only")]
pub(crate) mod native {
    use super::Registers;

    #[inline(always)]
    pub(crate) fn here() -> Registers {
        let (pc, sp, fp, lr): (u64, u64, u64, u64);
        // SAFETY: copies four registers, and touches neither memory nor flags.
        unsafe {
            std::arch::asm!(
                "adr {pc}, .", "mov {sp}, sp", "mov {fp}, x29", "mov {lr}, x30",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp, lr = out(reg) lr,
                options(nomem, nostack, preserves_flags)
            );
        }
        Registers { pc, sp, fp, lr }
    }

    #[inline(always)]
    pub(crate) fn strip(mut lr: u64) -> u64 {
        // `xpaclri`, by its number because not every assembler knows it: an older processor does nothing.
        // SAFETY: changes only the one register that is passed in and out.
        unsafe {
            std::arch::asm!("hint #7", inout("x30") lr, options(pure, nomem, nostack, preserves_flags))
        };
        lr
    }

    #[inline]
    pub(crate) fn of_context(context: &libc::ucontext_t) -> Registers {
        let machine = &context.uc_mcontext;
        Registers { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = crate::table::TableBuilder::new(crate::Architecture::Aarch64);
        table.function(0, 1);
        table.rule(0, Rule::Unknown);
        table.finish().expect("one function")
    }

    #[test]
    fn a_leaf_returns_by_the_link_register() {
        let mut memory = |_: u64| None;
        let from = Registers { pc: 0x40_2000, sp: 0x7000, fp: 1, lr: 0x2a00_0000_0040_1000 };
        let rule = Rule::Frame { base: Base::StackPointer, offset: 0, saved: 0 };
        let caller = step(&table(), rule, &from, &mut memory).expect("no memory needed");
        assert_eq!((caller.pc, caller.sp), (0x40_1000, 0x7000));
    }

    #[test]
    fn a_frame_restores_the_saved_pair() {
        let words = [0u64, 0, 0xfb, 0x40_1000];
        let mut memory = |address: u64| words.get((address.checked_sub(0x7000)? / 8) as usize).copied();
        let from = Registers { pc: 0x40_2000, sp: 0x7000, fp: 0x7010, lr: 0 };
        let rule = Rule::Frame { base: Base::FramePointer, offset: 16, saved: 2 };
        let caller = step(&table(), rule, &from, &mut memory).expect("readable");
        assert_eq!(caller, Registers { pc: 0x40_1000, sp: 0x7020, fp: 0xfb, lr: 0x40_1000 });
    }
}
