//! A sample record, and the call chain in it.

use super::attr::{SampleLayout, kernel_constants, sample_bit};
use super::bytes::{ByteReader, WordArray};
use crate::arch::Registers;

/// What a sample holds: `PERF_RECORD_SAMPLE`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// The instruction.
    pub ip: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it was taken.
    pub time: Option<u64>,
    /// How much was counted since the previous sample.
    pub period: Option<u64>,
    /// Addresses, leaf first, and marks of [`callchain`].
    pub callchain: Option<WordArray<'a>>,
    /// What a tracepoint recorded.
    pub raw: &'a [u8],
    /// For each open call where it comes from, where it leads, and flags, innermost first, if the processor keeps
    /// them.
    pub calls: Option<WordArray<'a>>,
    /// The user registers; `None` for a thread of the kernel.
    pub registers: Option<UserRegisters<'a>>,
    /// The user stack from the stack pointer up.
    pub stack: &'a [u8],
    /// Where in the record's body the dump of the user stack begins, starting with its size.
    pub dump_at: Option<usize>,
}

impl<'a> Sample<'a> {
    /// Reads a whole sample.
    #[inline]
    pub fn parse(layout: &SampleLayout, mut fields: ByteReader<'a>) -> Option<Self> {
        let (mut sample, size) = Self::parse_up_to_dump(layout, &mut fields)?;
        if size > 0 {
            let dump = fields.bytes(size)?;
            let used = usize::try_from(fields.u64()?).ok()?;
            sample.stack = &dump[..used.min(size)];
        }
        Some(sample)
    }

    /// Reads everything before the dump of the user stack, and the size of the dump.
    #[inline]
    pub fn parse_up_to_dump(layout: &SampleLayout, fields: &mut ByteReader<'a>) -> Option<(Self, usize)> {
        let mut sample = Self::default();
        let length = fields.rest().len();
        let skip = |bit: u64, fields: &mut ByteReader<'a>| {
            if layout.has(bit) { fields.u64().map(drop) } else { Some(()) }
        };
        skip(sample_bit::IDENTIFIER, fields)?;
        if layout.has(sample_bit::IP) {
            sample.ip = fields.u64()?;
        }
        if layout.has(sample_bit::TID) {
            (sample.pid, sample.tid) = (fields.u32()?, fields.u32()?);
        }
        if layout.has(sample_bit::TIME) {
            sample.time = Some(fields.u64()?);
        }
        for bit in [sample_bit::ADDR, sample_bit::ID, sample_bit::STREAM_ID, sample_bit::CPU] {
            skip(bit, fields)?;
        }
        if layout.has(sample_bit::PERIOD) {
            sample.period = Some(fields.u64()?);
        }
        if layout.has(sample_bit::READ) {
            skip_read(layout.read_format, fields)?;
        }
        if layout.has(sample_bit::CALLCHAIN) {
            let count = fields.u64()?;
            sample.callchain = Some(fields.words(count)?);
        }
        if layout.has(sample_bit::RAW) {
            // The kernel pads the data so that the next field is aligned, and counts the padding.
            let size = fields.u32()?;
            sample.raw = fields.bytes(size as usize)?;
        }
        if layout.has(sample_bit::BRANCH_STACK) {
            let count = fields.u64()?;
            fields.words(u64::from(layout.branches_have_index()))?;
            let branches = fields.words(count.checked_mul(3)?)?;
            sample.calls = Some(branches).filter(|_| count > 0 && layout.branches_are_calls());
        }
        if layout.has(sample_bit::REGS_USER) {
            sample.registers = UserRegisters::parse(layout.user_registers, fields)?;
        }
        if !layout.has(sample_bit::STACK_USER) {
            return Some((sample, 0));
        }
        sample.dump_at = Some(length - fields.rest().len());
        Some((sample, usize::try_from(fields.u64()?).ok()?))
    }
}

fn skip_read(format: u64, fields: &mut ByteReader<'_>) -> Option<()> {
    let times = u64::from(format & 1 != 0) + u64::from(format & 2 != 0);
    let each = 1 + u64::from(format & 4 != 0) + u64::from(format & 16 != 0);
    let words = if format & 8 != 0 {
        let count = fields.u64()?;
        times.checked_add(count.checked_mul(each)?)?
    } else {
        times + each
    };
    fields.words(words).map(drop)
}

impl SampleLayout {
    /// Returns where the bytes of the user stack start in the body of a sample, and how many there are, if any.
    pub fn stack_place(&self, mut body: ByteReader<'_>) -> Option<(usize, usize)> {
        let (sample, size) = Sample::parse_up_to_dump(self, &mut body)?;
        sample.dump_at.filter(|_| size > 0).map(|at| (at + 8, size))
    }

    /// Returns the id of the event that the sample belongs to.
    pub fn sample_id(&self, mut body: ByteReader<'_>) -> Option<u64> {
        const BEFORE: [u64; 4] = [sample_bit::IP, sample_bit::TID, sample_bit::TIME, sample_bit::ADDR];
        if self.has(sample_bit::IDENTIFIER) {
            return body.u64();
        }
        if !self.has(sample_bit::ID) {
            return None;
        }
        body.bytes(self.count(&BEFORE) * 8)?;
        body.u64()
    }

    /// Returns when the sample was taken, without reading the rest.
    pub fn sample_time(&self, mut body: ByteReader<'_>) -> Option<u64> {
        if !self.has(sample_bit::TIME) {
            return None;
        }
        body.bytes(self.count(&[sample_bit::IDENTIFIER, sample_bit::IP, sample_bit::TID]) * 8)?;
        body.u64()
    }

    fn count(&self, bits: &[u64]) -> usize {
        bits.iter().filter(|&&bit| self.has(bit)).count()
    }
}

/// The user-side registers, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct UserRegisters<'a> {
    mask: u64,
    values: WordArray<'a>,
    /// Whether the thread runs 64-bit code.
    pub is_64_bit: bool,
}

impl<'a> UserRegisters<'a> {
    #[inline]
    fn parse(mask: u64, fields: &mut ByteReader<'a>) -> Option<Option<Self>> {
        const ABI_NONE: u64 = 0;
        const ABI_64: u64 = 2;
        let abi = fields.u64()?;
        if abi == ABI_NONE {
            return Some(None);
        }
        let values = fields.words(u64::from(mask.count_ones()))?;
        Some(Some(Self { mask, values, is_64_bit: abi == ABI_64 }))
    }

    /// Returns the registers that unwinding needs, by the numbers that perf gives them on each machine.
    #[inline]
    pub fn for_unwinding(&self) -> Option<Registers> {
        // Only 64-bit Arm has a register 32, its program counter.
        if self.mask >> 32 & 1 == 1 {
            let (fp, lr) = (self.get(29).unwrap_or(0), self.get(30).unwrap_or(0));
            return Some(Registers { pc: self.get(32)?, sp: self.get(31)?, fp, lr });
        }
        Some(Registers { pc: self.get(8)?, sp: self.get(7)?, fp: self.get(6).unwrap_or(0), lr: 0 })
    }

    #[inline]
    fn get(&self, number: u32) -> Option<u64> {
        let before = self.mask & ((1u64 << number) - 1);
        (self.mask >> number & 1 == 1).then(|| self.values.get(before.count_ones() as usize)).flatten()
    }
}

/// The mask of the registers that unwinding needs, on the machine that this runs on.
#[cfg(target_arch = "aarch64")]
pub const NATIVE_REGISTERS: u64 = 1 << 32 | 1 << 31 | 1 << 30 | 1 << 29;
/// The mask of the registers that unwinding needs, on the machine that this runs on.
#[cfg(not(target_arch = "aarch64"))]
pub const NATIVE_REGISTERS: u64 = 1 << 8 | 1 << 7 | 1 << 6;

kernel_constants! {
    /// Marks in a call chain that say whose addresses follow: `PERF_CONTEXT_*`. Words from `FIRST` on are not
    /// addresses.
    callchain: u64 {
        KERNEL = -128i64 as u64,
        USER = -512i64 as u64,
        GUEST_USER = -2560i64 as u64,
        FIRST = -4095i64 as u64,
    }
}

/// Returns the frames of a call chain with the mark before each, leaf first. Callers are given as addresses inside
/// their call instruction. `context` is the mark of frames before the first mark.
pub fn callchain_frames(
    words: impl Iterator<Item = u64>,
    mut context: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let mut is_exact = true;
    words.filter_map(move |word| {
        if word >= callchain::FIRST {
            (context, is_exact) = (word, true);
            return None;
        }
        // The first frame of a context is the current instruction, the others are return addresses.
        let address = if is_exact { word } else { word.saturating_sub(1) };
        is_exact = false;
        Some((context, address))
    })
}
