//! How to get from one frame to its caller, as an enum and packed.
//!
//! A packed row is 32 bits:
//!
//! | bits | common frame | special |
//! |---|---|---|
//! | 0–7 | offset of the first pc in its 256-byte bucket | the same |
//! | 8–9 | 0: CFA from the stack pointer, 1: from the frame pointer | 2 |
//! | 10–15 | where the caller's registers were saved: n means CFA − 8n, 0 not saved | which special rule |
//! | 16–31 | (CFA − base) / 8, so that frames of 512 KB fit | its argument |
//!
//! The CFA (canonical frame address) is the stack pointer as the caller had it before the call.

/// The register that a CFA is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
}

/// How to find the caller of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// `CFA = base + offset`; what `saved` means depends on the machine, see `arch`.
    Frame { base: Base, offset: u32, saved: u8 },
    /// The first frame of a thread.
    Root,
    /// A signal trampoline: the interrupted registers are on the stack.
    Signal,
    /// A lazy PLT stub: one more word is pushed from byte `threshold` of each 16 on.
    Plt { threshold: u8 },
    /// Go's code that changes to another stack: the frame pointer is still of the one before. If that cannot be read, the
    /// stack ends here.
    OtherStack,
    /// No information, or more than a table can hold.
    Unknown,
    /// Too rare for a packed row: the row of the side table.
    Side(u16),
}

/// A rule of the side table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SideRule {
    pub(crate) cfa: SideCfa,
    pub(crate) frame_pointer: Saved,
    pub(crate) return_address: Saved,
}

/// How the side table finds a CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SideCfa {
    /// `base + offset`.
    Offset(Base, i64),
    /// The word at `base + offset`, as functions that realign their stack keep it.
    Deref(Base, i64),
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Saved {
    /// Still in the register.
    Same,
    /// In memory at CFA + offset.
    AtCfa(i64),
    /// In memory at this frame's frame pointer + offset.
    AtFramePointer(i64),
}

/// The largest CFA offset of a packed row.
pub(crate) const MAX_OFFSET: u32 = u16::MAX as u32 * 8;
/// The largest `saved` of a packed row.
pub(crate) const MAX_SAVED: u8 = 63;

const KIND_STACK_POINTER: u32 = 0;
const KIND_FRAME_POINTER: u32 = 1;
const KIND_SPECIAL: u32 = 2;

const SPECIAL_UNKNOWN: u32 = 0;
const SPECIAL_ROOT: u32 = 1;
const SPECIAL_SIGNAL: u32 = 2;
const SPECIAL_PLT: u32 = 3;
const SPECIAL_SIDE: u32 = 4;
const SPECIAL_OTHER_STACK: u32 = 5;

/// A [`Rule`] and the place in its bucket from which on it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct TableRow(u32);

impl TableRow {
    pub(crate) fn pack(pc_in_bucket: u8, rule: Rule) -> Self {
        let (kind, saved, argument) = match rule {
            Rule::Frame { base: Base::StackPointer, offset, saved } => {
                (KIND_STACK_POINTER, u32::from(saved), offset / 8)
            }
            Rule::Frame { base: Base::FramePointer, offset, saved } => {
                (KIND_FRAME_POINTER, u32::from(saved), offset / 8)
            }
            Rule::Unknown => (KIND_SPECIAL, SPECIAL_UNKNOWN, 0),
            Rule::Root => (KIND_SPECIAL, SPECIAL_ROOT, 0),
            Rule::Signal => (KIND_SPECIAL, SPECIAL_SIGNAL, 0),
            Rule::Plt { threshold } => (KIND_SPECIAL, SPECIAL_PLT, u32::from(threshold)),
            Rule::Side(index) => (KIND_SPECIAL, SPECIAL_SIDE, u32::from(index)),
            Rule::OtherStack => (KIND_SPECIAL, SPECIAL_OTHER_STACK, 0),
        };
        Self(u32::from(pc_in_bucket) | kind << 8 | saved << 10 | argument << 16)
    }

    #[inline(always)]
    pub(crate) fn pc_in_bucket(self) -> u32 {
        self.0 & 0xff
    }

    #[inline(always)]
    pub(crate) fn rule(self) -> Rule {
        let saved = (self.0 >> 10 & 0x3f) as u8;
        let argument = self.0 >> 16;
        match self.0 >> 8 & 3 {
            KIND_STACK_POINTER => Rule::Frame { base: Base::StackPointer, offset: argument * 8, saved },
            KIND_FRAME_POINTER => Rule::Frame { base: Base::FramePointer, offset: argument * 8, saved },
            _ => match u32::from(saved) {
                SPECIAL_ROOT => Rule::Root,
                SPECIAL_SIGNAL => Rule::Signal,
                SPECIAL_PLT => Rule::Plt { threshold: argument as u8 },
                SPECIAL_SIDE => Rule::Side(argument as u16),
                SPECIAL_OTHER_STACK => Rule::OtherStack,
                _ => Rule::Unknown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_survives_packing() {
        let rules = [
            Rule::Frame { base: Base::StackPointer, offset: 8, saved: 0 },
            Rule::Frame { base: Base::StackPointer, offset: MAX_OFFSET, saved: MAX_SAVED },
            Rule::Frame { base: Base::FramePointer, offset: 16, saved: 2 },
            Rule::Root,
            Rule::Signal,
            Rule::Plt { threshold: 11 },
            Rule::Unknown,
            Rule::OtherStack,
            Rule::Side(0xabcd),
        ];
        for (at, rule) in rules.into_iter().enumerate() {
            let row = TableRow::pack(250 + (at as u8 & 3), rule);
            assert_eq!(row.rule(), rule);
            assert_eq!(row.pc_in_bucket(), 250 + (at as u32 & 3));
        }
    }
}
