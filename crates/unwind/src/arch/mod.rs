//! What differs between machines: which registers unwinding needs, and how a frame's rule is applied.
//!
//! `x86_64` and `aarch64` mirror each other: `step`, `packed` (which register rules fit a packed row) and
//! `signal` have the same shape in both. Each is compiled on every host. Only [`Registers::here`] and
//! [`Registers::of_context`] depend on the machine this is compiled for.

pub(crate) mod aarch64;
pub(crate) mod x86_64;

use crate::end::Reason;
use crate::memory::Memory;
use crate::rule::{Base, Saved, SideCfa, SideRule};

/// A machine whose stacks can be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Architecture {
    /// The machine this is compiled for (x86_64 if it is neither, which then unwinds nothing live).
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// Returns DWARF's numbers of the frame pointer and the return address.
    pub(crate) fn dwarf_registers(self) -> (u16, u16) {
        match self {
            Self::X86_64 => (x86_64::FRAME_POINTER, x86_64::RETURN_ADDRESS),
            Self::Aarch64 => (aarch64::FRAME_POINTER, aarch64::RETURN_ADDRESS),
        }
    }

    /// Returns whose private call frame instructions to expect: Arm's libraries sign return addresses.
    pub(crate) fn dwarf_vendor(self) -> gimli::Vendor {
        match self {
            Self::X86_64 => gimli::Vendor::Default,
            Self::Aarch64 => gimli::Vendor::AArch64,
        }
    }

    pub(crate) fn base(self, dwarf_register: u16) -> Option<Base> {
        match self {
            Self::X86_64 => x86_64::base(dwarf_register),
            Self::Aarch64 => aarch64::base(dwarf_register),
        }
    }

    /// Returns the `saved` of a packed row, if these places fit one.
    pub(crate) fn packed(self, frame_pointer: Saved, return_address: Saved) -> Option<u8> {
        match self {
            Self::X86_64 => x86_64::packed(frame_pointer, return_address),
            Self::Aarch64 => aarch64::packed(frame_pointer, return_address),
        }
    }
}

/// The registers that unwinding starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The program counter.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer (`rbp`, `x29`), whether or not the code uses it as one.
    pub fp: u64,
    /// The link register (`x30`); 0 on x86_64, which has none.
    pub lr: u64,
}

impl Registers {
    /// Returns this thread's registers in the calling function. Async-signal-safe. The frame that calls this must
    /// still be alive when the registers are used.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline(always)]
    pub fn here() -> Self {
        x86_64::native::here()
    }

    /// Returns this thread's registers in the calling function. Async-signal-safe. The frame that calls this must
    /// still be alive when the registers are used.
    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    #[inline(always)]
    pub fn here() -> Self {
        aarch64::native::here()
    }

    /// Returns the registers that a signal interrupted. Async-signal-safe.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline]
    pub fn of_context(context: &libc::ucontext_t) -> Self {
        x86_64::native::of_context(context)
    }

    /// Returns the registers that a signal interrupted. Async-signal-safe.
    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    #[inline]
    pub fn of_context(context: &libc::ucontext_t) -> Self {
        aarch64::native::of_context(context)
    }
}

impl Base {
    #[inline(always)]
    pub(crate) fn of(self, registers: &Registers) -> u64 {
        match self {
            Base::StackPointer => registers.sp,
            Base::FramePointer => registers.fp,
        }
    }
}

/// Applies a rule of the side table: the CFA, the caller's frame pointer and the return address.
#[cold]
pub(crate) fn side_step(
    rule: &SideRule,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<(u64, u64, Option<u64>), Reason> {
    let cfa = match rule.cfa {
        SideCfa::Offset(base, offset) => base.of(registers).wrapping_add_signed(offset),
        SideCfa::Deref(base, offset) => {
            let at = base.of(registers).wrapping_add_signed(offset);
            memory.read(at).ok_or(Reason::OutOfStack)?
        }
    };
    let mut saved = |place: Saved| match place {
        Saved::Same => Ok(None),
        Saved::AtCfa(offset) => {
            memory.read(cfa.wrapping_add_signed(offset)).map(Some).ok_or(Reason::OutOfStack)
        }
        Saved::AtFramePointer(offset) => {
            memory.read(registers.fp.wrapping_add_signed(offset)).map(Some).ok_or(Reason::OutOfStack)
        }
    };
    // An epilogue may have popped the frame pointer already: below the stack pointer its place is free again.
    let frame_pointer = match rule.frame_pointer {
        Saved::AtCfa(offset) if cfa.wrapping_add_signed(offset) < registers.sp => registers.fp,
        place => saved(place)?.unwrap_or(registers.fp),
    };
    Ok((cfa, frame_pointer, saved(rule.return_address)?))
}
