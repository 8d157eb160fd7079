//! A sample record, whose layout the attr's `sample_type` tells.

use super::attr::{Attr, bit};
use super::fields::{Fields, Words};

/// What a sample holds, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample<'a> {
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: Option<u64>,
    pub(super) period: Option<u64>,
    pub(super) chain: Option<Words<'a>>,
    /// The values of the registers in the attr's mask.
    pub(super) registers: Option<Words<'a>>,
    pub(super) stack: &'a [u8],
    /// Where open calls come from, where they lead, and flags, innermost first, when the processor keeps them.
    pub(super) calls: Option<Words<'a>>,
}

impl<'a> Sample<'a> {
    /// Reads a whole sample.
    pub(super) fn parse(attr: &Attr, mut fields: Fields<'a>) -> Option<Self> {
        let (mut sample, size) = Self::parse_up_to_dump(attr, &mut fields)?;
        if size > 0 {
            let bytes = fields.bytes(size)?;
            let used = usize::try_from(fields.u64()?).ok()?;
            sample.stack = &bytes[..used.min(size)];
        }
        Some(sample)
    }

    /// Where the dump of the user stack starts, and its size, when there is one.
    pub(super) fn dump_place(attr: &Attr, fields: Fields<'_>) -> Option<(usize, usize)> {
        let mut rest = fields;
        let (_, size) = Sample::parse_up_to_dump(attr, &mut rest)?;
        (size > 0).then(|| (fields.rest().len() - rest.rest().len(), size))
    }

    /// Reads everything that stands before the dump of the user stack, and the size of that.
    pub(super) fn parse_up_to_dump(attr: &Attr, fields: &mut Fields<'a>) -> Option<(Self, usize)> {
        let mut sample = Self::default();
        let skip =
            |has: u64, fields: &mut Fields<'a>| if attr.has(has) { fields.u64().map(drop) } else { Some(()) };
        skip(bit::IDENTIFIER, fields)?;
        if attr.has(bit::IP) {
            sample.ip = fields.u64()?;
        }
        if attr.has(bit::TID) {
            (sample.pid, sample.tid) = (fields.u32()?, fields.u32()?);
        }
        if attr.has(bit::TIME) {
            sample.time = Some(fields.u64()?);
        }
        for has in [bit::ADDR, bit::ID, bit::STREAM_ID, bit::CPU] {
            skip(has, fields)?;
        }
        if attr.has(bit::PERIOD) {
            sample.period = Some(fields.u64()?);
        }
        if attr.has(bit::READ) {
            skip_read(attr.read_format, fields)?;
        }
        if attr.has(bit::CALLCHAIN) {
            let count = fields.u64()?;
            sample.chain = Some(fields.words(count)?);
        }
        if attr.has(bit::RAW) {
            let size = fields.u32()?;
            fields.bytes(size as usize)?;
        }
        if attr.has(bit::BRANCH_STACK) {
            let count = fields.u64()?;
            fields.words(u64::from(attr.branches_have_index()))?;
            let branches = fields.words(count.checked_mul(3)?)?;
            sample.calls = Some(branches).filter(|_| count > 0 && attr.branches_are_calls());
        }
        if attr.has(bit::REGS_USER) {
            let abi = fields.u64()?;
            if abi != 0 {
                sample.registers = Some(fields.words(u64::from(attr.user_registers.count_ones()))?);
            }
        }
        let size = if attr.has(bit::STACK_USER) { usize::try_from(fields.u64()?).ok()? } else { 0 };
        Some((sample, size))
    }
}

fn skip_read(format: u64, fields: &mut Fields<'_>) -> Option<()> {
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

/// Which of several events a sample belongs to, told by an id at a fixed place.
pub(super) fn sample_id(attr: &Attr, fields: Fields<'_>) -> Option<u64> {
    let mut fields = fields;
    if attr.has(bit::IDENTIFIER) {
        return fields.u64();
    }
    if !attr.has(bit::ID) {
        return None;
    }
    let before = [bit::IP, bit::TID, bit::TIME, bit::ADDR].iter().filter(|&&bit| attr.has(bit)).count();
    fields.bytes(before * 8)?;
    fields.u64()
}

/// The time of a sample, without reading the rest.
pub(super) fn sample_time(attr: &Attr, fields: Fields<'_>) -> Option<u64> {
    let mut fields = fields;
    if !attr.has(bit::TIME) {
        return None;
    }
    let before = [bit::IDENTIFIER, bit::IP, bit::TID].iter().filter(|&&bit| attr.has(bit)).count();
    fields.bytes(before * 8)?;
    fields.u64()
}

/// The time of another record, which stands in its trailer.
pub(super) fn trailer_time(attr: &Attr, body: &[u8], big: bool) -> Option<u64> {
    if !attr.stamps_all() || !attr.has(bit::TIME) {
        return None;
    }
    let after =
        [bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER].iter().filter(|&&bit| attr.has(bit)).count();
    let start = body.len().checked_sub((after + 1) * 8)?;
    Fields::new(&body[start..], big).u64()
}
