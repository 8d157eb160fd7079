//! The records of a ring, in the layout that this recorder requests.

use flamelet_unwind::perf_event::{
    self, ByteReader, Comm, Mmap, NATIVE_REGISTERS, RecordHeader, SampleLayout, TaskChange, WordArray,
    callchain, callchain_frames, misc, record_kind, sample_bit,
};

/// The fields that every event of a recording has, so that every record but samples ends in the same trailer: the
/// thread, the time and the identifier.
pub(crate) const COMMON_FIELDS: u64 =
    sample_bit::IDENTIFIER | sample_bit::IP | sample_bit::TID | sample_bit::TIME;
const TRAILER: usize = 24;

/// One record of a ring, of which only the header has been parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingRecord<'a> {
    header: RecordHeader,
    body: &'a [u8],
}

impl<'a> RingRecord<'a> {
    /// Returns the first record of `bytes`, and its length.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let header = RecordHeader::parse(bytes, false)?;
        let length = usize::from(header.size);
        Some((Self { header, body: bytes.get(RecordHeader::SIZE..length)? }, length))
    }

    /// Returns when it was written, by the clock of the recording.
    pub(crate) fn time(&self) -> Option<u64> {
        match self.is_sample() {
            true => u64_at(self.body, 24),
            false => u64_at(self.body, self.body.len().checked_sub(16)?),
        }
    }

    /// Returns which event wrote it.
    pub(crate) fn identifier(&self) -> Option<u64> {
        match self.is_sample() {
            true => u64_at(self.body, 0),
            false => u64_at(self.body, self.body.len().checked_sub(8)?),
        }
    }

    pub(crate) fn is_sample(&self) -> bool {
        self.header.kind == record_kind::SAMPLE
    }

    fn fields(&self) -> ByteReader<'a> {
        ByteReader::new(self.body, false)
    }

    /// Returns the process whose code changes with this record: it mapped a file, executed another program, or is
    /// new.
    pub(crate) fn changes_code_of(&self) -> Option<u32> {
        let mut fields = self.fields();
        let (pid, second) = (fields.u32()?, fields.u32()?);
        let changes = match self.header.kind {
            record_kind::MMAP2 => true,
            // A new thread is not a new process.
            record_kind::FORK => pid != second,
            record_kind::COMM => self.header.has(misc::COMM_EXEC),
            _ => false,
        };
        changes.then_some(pid)
    }

    /// Returns the thread that a record without a body of its own is about.
    fn trailing_thread(&self) -> Option<ThreadOf> {
        let mut trailer = ByteReader::new(&self.body[self.body.len().checked_sub(TRAILER)?..], false);
        Some(ThreadOf { pid: trailer.u32()?, tid: trailer.u32()? })
    }

    /// Parses the record, unless it is a sample.
    pub(crate) fn parse(&self) -> Option<Record<'a>> {
        let (header, mut fields) = (self.header, self.fields());
        match header.kind {
            record_kind::LOST => {
                let (_id, count) = (fields.u64()?, fields.u64()?);
                Some(Record::Lost { count })
            }
            record_kind::LOST_SAMPLES => Some(Record::Lost { count: fields.u64()? }),
            record_kind::THROTTLE => Some(Record::Throttled),
            record_kind::COMM => {
                let Comm { pid, tid, name, is_exec } = Comm::parse(header, fields)?;
                Some(Record::Comm { thread: ThreadOf { pid, tid }, name, is_exec })
            }
            record_kind::FORK => {
                let task = TaskChange::parse(header, fields)?;
                let parent = ThreadOf { pid: task.parent_pid, tid: task.parent_tid };
                Some(Record::Fork { thread: ThreadOf { pid: task.pid, tid: task.tid }, parent })
            }
            record_kind::EXIT => {
                let TaskChange { pid, tid, .. } = TaskChange::parse(header, fields)?;
                Some(Record::Exit { thread: ThreadOf { pid, tid } })
            }
            record_kind::SWITCH | record_kind::SWITCH_CPU_WIDE => {
                let thread = self.trailing_thread()?;
                Some(match header.has(misc::SWITCH_OUT) {
                    false => Record::SwitchIn { thread },
                    true => Record::SwitchOut { thread, is_preempted: header.has(misc::SWITCH_OUT_PREEMPT) },
                })
            }
            record_kind::MMAP2 => Mmap::parse(header, fields).map(Record::Mmap),
            _ => None,
        }
    }

    /// Parses a sample with the fields of `sample_type`.
    pub(crate) fn sample(&self, sample_type: u64) -> Option<RingSample<'a>> {
        let layout =
            SampleLayout { sample_type, user_registers: NATIVE_REGISTERS, ..SampleLayout::default() };
        let sample = perf_event::Sample::parse(&layout, self.fields())?;
        let registers = match sample.registers.filter(|registers| registers.is_64_bit) {
            Some(registers) => Some(registers.for_unwinding()?),
            None => None,
        };
        Some(RingSample {
            thread: ThreadOf { pid: sample.pid, tid: sample.tid },
            time: sample.time?,
            period: sample.period.unwrap_or(1),
            callchain: sample.callchain.unwrap_or_default(),
            raw: sample.raw,
            user: registers.map(|registers| UserSide { registers, stack: sample.stack }),
            stack_at: sample.dump_at,
        })
    }

    /// Appends the record to `into` without the stack at [`RingSample::stack_at`], which must come last: it has been
    /// unwound already.
    pub(crate) fn push_without_stack(&self, stack_at: usize, into: &mut Vec<u8>) {
        const NO_STACK: [u8; 8] = [0; 8];
        let kept = &self.body[..stack_at];
        let length = (RecordHeader::SIZE + kept.len() + NO_STACK.len()) as u16;
        into.extend_from_slice(&self.header.kind.to_le_bytes());
        into.extend_from_slice(&self.header.misc.to_le_bytes());
        into.extend_from_slice(&length.to_le_bytes());
        into.extend_from_slice(kept);
        into.extend_from_slice(&NO_STACK);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ThreadOf {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

/// The content of a record other than a sample.
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

/// A sample whose stack is not unwound yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSample<'a> {
    pub(crate) thread: ThreadOf,
    pub(crate) time: u64,
    pub(crate) period: u64,
    callchain: WordArray<'a>,
    /// The data of the tracepoint itself.
    pub(crate) raw: &'a [u8],
    /// `None` for a kernel thread.
    pub(crate) user: Option<UserSide<'a>>,
    /// The offset of the stack's copy in the body, including its length field.
    pub(crate) stack_at: Option<usize>,
}

/// The user side of a thread at the time of the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserSide<'a> {
    pub(crate) registers: flamelet_unwind::Registers,
    /// The stack from the stack pointer on.
    pub(crate) stack: &'a [u8],
}

impl<'a> RingSample<'a> {
    /// The kernel's frames, leaf first. Callers are addresses inside their call instruction, as on the user side.
    pub(crate) fn kernel_frames(&self) -> impl Iterator<Item = u64> + 'a {
        let frames = callchain_frames(self.callchain.iter(), callchain::USER);
        frames.filter_map(|(context, address)| (context == callchain::KERNEL).then_some(address))
    }
}

/// Returns the eight-byte number at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
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
        let bytes =
            record(record_kind::SWITCH, misc::SWITCH_OUT | misc::SWITCH_OUT_PREEMPT, &trailer(7, 8, 99, 5));
        let (raw, length) = RingRecord::first(&bytes).expect("whole");
        assert_eq!((length, raw.time(), raw.identifier()), (bytes.len(), Some(99), Some(5)));
        let thread = ThreadOf { pid: 7, tid: 8 };
        assert_eq!(raw.parse(), Some(Record::SwitchOut { thread, is_preempted: true }));
    }

    #[test]
    fn samples_are_cut_to_what_was_filled_and_survive_any_cut() {
        const FIELDS: u64 =
            COMMON_FIELDS | sample_bit::CALLCHAIN | sample_bit::REGS_USER | sample_bit::STACK_USER;
        let mut words: Vec<u64> = vec![42, 0x1000, (8 << 32) | 7, 99];
        words.extend([3, callchain::KERNEL, 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010]);
        let registers = u64::from(NATIVE_REGISTERS.count_ones());
        words.push(2);
        words.extend((0..registers).map(|at| 100 + at));
        words.extend([16, 0xaa, 0xbb, 8]);
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = record(record_kind::SAMPLE, 0, &body);
        let (raw, _) = RingRecord::first(&bytes).expect("whole");
        let sample = raw.sample(FIELDS).expect("whole");
        assert_eq!(sample.thread, ThreadOf { pid: 7, tid: 8 });
        let kernel: Vec<u64> = sample.kernel_frames().collect();
        assert_eq!(kernel, [0xffff_ffff_8100_0000, 0xffff_ffff_8100_000f]);
        let user = sample.user.expect("a user side");
        assert_eq!(user.stack, 0xaau64.to_le_bytes());
        let mut short = Vec::new();
        raw.push_without_stack(sample.stack_at.expect("it has one"), &mut short);
        let (raw, length) = RingRecord::first(&short).expect("whole");
        let without = raw.sample(FIELDS).expect("whole");
        assert_eq!((length, raw.time(), raw.identifier()), (short.len(), Some(99), Some(42)));
        assert_eq!(without.user.expect("a user side").stack, []);
        assert_eq!(without.kernel_frames().collect::<Vec<_>>(), kernel);
        for length in 0..body.len() {
            let cut = record(record_kind::SAMPLE, 0, &body[..length]);
            if let Some((raw, _)) = RingRecord::first(&cut) {
                assert!(raw.sample(FIELDS).is_none());
            }
            assert!(RingRecord::first(&bytes[..length + 8]).is_none());
        }
    }
}
