//! The records of a ring, as the kernel's header defines them. Nothing is trusted: a record that is shorter
//! than it must be is none.

use crate::sys::attr::sample;

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// tid, time and identifier follow every record but samples; see [`sample::BASE`].
const TRAILER: usize = 24;

/// One record: where it is, when it was written, and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: u32,
    misc: u16,
    body: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The first record of `bytes`, and how long it is.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let kind = u32_at(bytes, 0)?;
        let misc = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let length = usize::from(u16::from_le_bytes(*bytes.get(6..)?.first_chunk()?));
        let body = bytes.get(8..length)?;
        Some((Self { kind, misc, body }, length))
    }

    /// When it was written, by the clock of the recording.
    pub(crate) fn time(&self) -> Option<u64> {
        match self.kind {
            SAMPLE => u64_at(self.body, 24),
            _ => u64_at(self.body, self.body.len().checked_sub(16)?),
        }
    }

    /// Which event wrote it.
    pub(crate) fn identifier(&self) -> Option<u64> {
        match self.kind {
            SAMPLE => u64_at(self.body, 0),
            _ => u64_at(self.body, self.body.len().checked_sub(8)?),
        }
    }

    pub(crate) fn is_sample(&self) -> bool {
        self.kind == SAMPLE
    }

    /// The process whose code is another after this record: it mapped a file, runs another program, or is new.
    pub(crate) fn changes_code_of(&self) -> Option<u32> {
        let changes = match self.kind {
            MMAP2 => true,
            // A new thread is not a new process.
            FORK => u32_at(self.body, 0) != u32_at(self.body, 4),
            COMM => self.misc & MISC_COMM_EXEC != 0,
            _ => false,
        };
        changes.then(|| u32_at(self.body, 0)).flatten()
    }

    /// The thread that a record without a body of its own is about.
    fn trailing_thread(&self) -> Option<ThreadOf> {
        let at = self.body.len().checked_sub(TRAILER)?;
        Some(ThreadOf { pid: u32_at(self.body, at)?, tid: u32_at(self.body, at + 4)? })
    }

    /// What the record says, other than a sample.
    pub(crate) fn parse(&self) -> Option<Record<'a>> {
        let body = self.body;
        let word = |at| u32_at(body, at);
        match self.kind {
            LOST => Some(Record::Lost { count: u64_at(body, 8)? }),
            LOST_SAMPLES => Some(Record::Lost { count: u64_at(body, 0)? }),
            THROTTLE => Some(Record::Throttled),
            COMM => Some(Record::Comm {
                thread: ThreadOf { pid: word(0)?, tid: word(4)? },
                name: text(body.get(8..body.len().checked_sub(TRAILER)?)?),
                is_exec: self.misc & MISC_COMM_EXEC != 0,
            }),
            FORK | EXIT => {
                let thread = ThreadOf { pid: word(0)?, tid: word(8)? };
                let parent = ThreadOf { pid: word(4)?, tid: word(12)? };
                Some(if self.kind == FORK {
                    Record::Fork { thread, parent }
                } else {
                    Record::Exit { thread }
                })
            }
            SWITCH | SWITCH_CPU_WIDE => {
                let thread = self.trailing_thread()?;
                Some(if self.misc & MISC_SWITCH_OUT == 0 {
                    Record::SwitchIn { thread }
                } else {
                    Record::SwitchOut { thread, is_preempted: self.misc & MISC_SWITCH_OUT_PREEMPT != 0 }
                })
            }
            MMAP2 => self.mmap(),
            _ => None,
        }
    }

    fn mmap(&self) -> Option<Record<'a>> {
        let body = self.body;
        let start = u64_at(body, 8)?;
        let build_id = if self.misc & MISC_MMAP_BUILD_ID == 0 {
            None
        } else {
            let length = usize::from(*body.get(32)?).min(20);
            Some(body.get(36..36 + length)?)
        };
        Some(Record::Mmap(Mmap {
            pid: u32_at(body, 0)?,
            start,
            end: start.checked_add(u64_at(body, 16)?)?,
            offset: u64_at(body, 24)?,
            build_id,
            name: text(body.get(64..body.len().checked_sub(TRAILER)?)?),
        }))
    }

    /// What the sample says, given what its event was asked to put in.
    pub(crate) fn sample(&self, sample_type: u64, registers: RegisterMask) -> Option<Sample<'a>> {
        let mut rest = Reader { bytes: self.body };
        rest.u64()?;
        rest.u64()?;
        let thread = ThreadOf { pid: rest.u32()?, tid: rest.u32()? };
        let time = rest.u64()?;
        let has = |field| sample_type & field != 0;
        let period = if has(sample::PERIOD) { rest.u64()? } else { 1 };
        let callchain = if has(sample::CALLCHAIN) {
            let count = usize::try_from(rest.u64()?).ok()?;
            rest.take(count.checked_mul(8)?)?
        } else {
            &[]
        };
        let raw = if has(sample::RAW) {
            let length = rest.u32()? as usize;
            let raw = rest.take(length)?;
            // The kernel pads the whole field, its length included, to eight bytes.
            rest.take((4 + length).next_multiple_of(8) - 4 - length)?;
            raw
        } else {
            &[]
        };
        let mut stack_at = None;
        let user = if has(sample::REGS_USER) {
            let registers = rest.registers(registers)?;
            stack_at = has(sample::STACK_USER).then(|| self.body.len() - rest.bytes.len());
            let stack = if stack_at.is_some() { rest.stack()? } else { &[] };
            registers.map(|registers| UserSide { registers, stack })
        } else {
            None
        };
        Some(Sample { thread, time, period, callchain, raw, user, stack_at })
    }

    /// Appends the record to `into` without the stack that lies at [`Sample::stack_at`], which must come last:
    /// it was unwound already.
    pub(crate) fn push_without_stack(&self, stack_at: usize, into: &mut Vec<u8>) {
        const NO_STACK: [u8; 8] = [0; 8];
        let kept = &self.body[..stack_at];
        let length = (8 + kept.len() + NO_STACK.len()) as u16;
        into.extend_from_slice(&self.kind.to_le_bytes());
        into.extend_from_slice(&self.misc.to_le_bytes());
        into.extend_from_slice(&length.to_le_bytes());
        into.extend_from_slice(kept);
        into.extend_from_slice(&NO_STACK);
    }
}

/// A thread and its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ThreadOf {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

/// A file that a process mapped to run code from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mmap<'a> {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) name: &'a [u8],
}

/// What a record other than a sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Mmap(Mmap<'a>),
    Comm { thread: ThreadOf, name: &'a [u8], is_exec: bool },
    Fork { thread: ThreadOf, parent: ThreadOf },
    Exit { thread: ThreadOf },
    SwitchIn { thread: ThreadOf },
    SwitchOut { thread: ThreadOf, is_preempted: bool },
    Lost { count: u64 },
    Throttled,
}

/// A sample, its stack not yet unwound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) thread: ThreadOf,
    pub(crate) time: u64,
    pub(crate) period: u64,
    /// Words: addresses and context marks.
    callchain: &'a [u8],
    /// What the tracepoint itself recorded.
    pub(crate) raw: &'a [u8],
    /// `None` for a thread of the kernel.
    pub(crate) user: Option<UserSide<'a>>,
    /// Where the copy of the stack begins in the body, its length included.
    pub(crate) stack_at: Option<usize>,
}

/// The user side of a thread at the moment of the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserSide<'a> {
    pub(crate) registers: flamelet_unwind::Registers,
    /// The stack from the stack pointer on.
    pub(crate) stack: &'a [u8],
}

const CONTEXT_KERNEL: u64 = -128i64 as u64;
/// Marks of contexts are the highest addresses.
const CONTEXT_MAX: u64 = -4095i64 as u64;

impl<'a> Sample<'a> {
    /// The kernel's frames, leaf first; callers as addresses inside their call, like those of the user side.
    pub(crate) fn kernel_frames(&self) -> impl Iterator<Item = u64> + 'a {
        let words = self.callchain.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut in_kernel = false;
        let mut is_leaf = true;
        words.filter_map(move |word| {
            if word >= CONTEXT_MAX {
                in_kernel = word == CONTEXT_KERNEL;
                return None;
            }
            let address = if is_leaf { word } else { word.wrapping_sub(1) };
            is_leaf = false;
            in_kernel.then_some(address)
        })
    }
}

/// Which registers samples carry, and where the four that unwinding needs are among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterMask {
    pub(crate) bits: u64,
    pc: u32,
    sp: u32,
    fp: u32,
    lr: Option<u32>,
}

impl RegisterMask {
    /// For the machine this runs on.
    #[cfg(target_arch = "aarch64")]
    pub(crate) const NATIVE: Self = Self::new(32, 31, 29, Some(30));
    /// For the machine this runs on.
    #[cfg(not(target_arch = "aarch64"))]
    pub(crate) const NATIVE: Self = Self::new(8, 7, 6, None);

    const fn new(pc: u32, sp: u32, fp: u32, lr: Option<u32>) -> Self {
        let lr_bit = match lr {
            Some(bit) => 1 << bit,
            None => 0,
        };
        Self { bits: 1 << pc | 1 << sp | 1 << fp | lr_bit, pc, sp, fp, lr }
    }

    /// The registers lie in the order of their numbers.
    fn pick(self, words: &[u8]) -> Option<flamelet_unwind::Registers> {
        let at = |bit: u32| u64_at(words, (self.bits & ((1 << bit) - 1)).count_ones() as usize * 8);
        let lr = match self.lr {
            Some(bit) => at(bit)?,
            None => 0,
        };
        Some(flamelet_unwind::Registers { pc: at(self.pc)?, sp: at(self.sp)?, fp: at(self.fp)?, lr })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        u64_at(self.take(8)?, 0)
    }

    fn u32(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }

    fn registers(&mut self, mask: RegisterMask) -> Option<Option<flamelet_unwind::Registers>> {
        const ABI_64: u64 = 2;
        let abi = self.u64()?;
        let words = if abi == 0 { &[] } else { self.take(mask.bits.count_ones() as usize * 8)? };
        if abi == ABI_64 { mask.pick(words).map(Some) } else { Some(None) }
    }

    fn stack(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        if length == 0 {
            return Some(&[]);
        }
        let stack = self.take(length)?;
        let filled = usize::try_from(self.u64()?).ok()?;
        stack.get(..filled.min(length))
    }
}

/// The bytes before the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(misc.to_le_bytes());
        bytes.extend((body.len() as u16 + 8).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn trailer(pid: u32, tid: u32, time: u64, id: u64) -> Vec<u8> {
        let mut bytes = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
        bytes.extend(time.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes
    }

    #[test]
    fn a_switch_names_its_thread_in_the_trailer() {
        let bytes = record(SWITCH, MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, &trailer(7, 8, 99, 5));
        let (raw, length) = Raw::first(&bytes).expect("whole");
        assert_eq!((length, raw.time(), raw.identifier()), (bytes.len(), Some(99), Some(5)));
        let thread = ThreadOf { pid: 7, tid: 8 };
        assert_eq!(raw.parse(), Some(Record::SwitchOut { thread, is_preempted: true }));
    }

    #[test]
    fn samples_are_cut_to_what_was_filled_and_survive_any_cut() {
        const FIELDS: u64 = sample::BASE | sample::CALLCHAIN | sample::REGS_USER | sample::STACK_USER;
        let mut words: Vec<u64> = vec![42, 0x1000, (8 << 32) | 7, 99];
        words.extend([3, CONTEXT_KERNEL, 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010]);
        let registers = RegisterMask::NATIVE.bits.count_ones() as u64;
        words.push(2);
        words.extend((0..registers).map(|at| 100 + at));
        words.extend([16, 0xaa, 0xbb, 8]);
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = record(SAMPLE, 0, &body);
        let (raw, _) = Raw::first(&bytes).expect("whole");
        let sample = raw.sample(FIELDS, RegisterMask::NATIVE).expect("whole");
        assert_eq!(sample.thread, ThreadOf { pid: 7, tid: 8 });
        let kernel: Vec<u64> = sample.kernel_frames().collect();
        assert_eq!(kernel, [0xffff_ffff_8100_0000, 0xffff_ffff_8100_000f]);
        let user = sample.user.expect("a user side");
        assert_eq!(user.stack, 0xaau64.to_le_bytes());
        let mut short = Vec::new();
        raw.push_without_stack(sample.stack_at.expect("it has one"), &mut short);
        let (raw, length) = Raw::first(&short).expect("whole");
        let without = raw.sample(FIELDS, RegisterMask::NATIVE).expect("whole");
        assert_eq!((length, raw.time(), raw.identifier()), (short.len(), Some(99), Some(42)));
        assert_eq!(without.user.expect("a user side").stack, []);
        assert_eq!(without.kernel_frames().collect::<Vec<_>>(), kernel);
        for length in 0..body.len() {
            let cut = record(SAMPLE, 0, &body[..length]);
            if let Some((raw, _)) = Raw::first(&cut) {
                assert!(raw.sample(FIELDS, RegisterMask::NATIVE).is_none());
            }
            assert!(Raw::first(&bytes[..length + 8]).is_none());
        }
    }
}
