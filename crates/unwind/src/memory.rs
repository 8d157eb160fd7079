//! Where the walk reads the stack.

/// Reads words of the stack that is unwound.
pub trait Memory {
    /// Returns the eight bytes at `address`, or `None` when they cannot be read. Must not fault.
    fn read(&mut self, address: u64) -> Option<u64>;

    /// Does the same, or returns `None` where [`Memory::read`] would have to do more than look; it is called then.
    #[inline(always)]
    fn glance(&mut self, address: u64) -> Option<u64> {
        self.read(address)
    }
}

/// Reads only what [`Memory::glance`] can.
pub(crate) struct AtAGlance<'a, M>(pub(crate) &'a mut M);

impl<M: Memory> Memory for AtAGlance<'_, M> {
    #[inline(always)]
    fn read(&mut self, address: u64) -> Option<u64> {
        self.0.glance(address)
    }
}

impl<F: FnMut(u64) -> Option<u64>> Memory for F {
    fn read(&mut self, address: u64) -> Option<u64> {
        self(address)
    }
}

/// A copy of the upper end of a stack, as perf samples carry it, and a fallback for memory beyond it.
///
/// ```
/// use flamelet_unwind::{Dump, Memory};
///
/// let mut dump = Dump::new(0x7000, &[1, 0, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(dump.read(0x7000), Some(1));
/// assert_eq!(dump.read(0x7008), None);
/// ```
pub struct Dump<'a, Beyond = fn(u64) -> Option<u64>> {
    start: u64,
    bytes: &'a [u8],
    beyond: Beyond,
    missed: Option<u64>,
}

impl<'a> Dump<'a> {
    /// `bytes` were copied from `start`, the stack pointer at that moment.
    pub fn new(start: u64, bytes: &'a [u8]) -> Self {
        Self { start, bytes, beyond: |_| None, missed: None }
    }
}

impl<'a, Beyond: FnMut(u64) -> Option<u64>> Dump<'a, Beyond> {
    /// Like [`Dump::new`], with `beyond` for addresses that the copy does not hold; it may read the stopped or just
    /// preempted target, for example.
    pub fn with_beyond(start: u64, bytes: &'a [u8], beyond: Beyond) -> Self {
        Self { start, bytes, beyond, missed: None }
    }

    /// Returns the first address that neither the copy nor `beyond` had: where the dump was too short.
    pub fn missed(&self) -> Option<u64> {
        self.missed
    }
}

impl<Beyond: FnMut(u64) -> Option<u64>> Memory for Dump<'_, Beyond> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let copied = address
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok())
            .and_then(|offset| self.bytes.get(offset..)?.first_chunk::<8>());
        if let Some(bytes) = copied {
            return Some(u64::from_le_bytes(*bytes));
        }
        let value = (self.beyond)(address);
        if value.is_none() && self.missed.is_none() {
            self.missed = Some(address);
        }
        value
    }
}
