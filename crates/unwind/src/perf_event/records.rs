//! The records that say which processes there are and what they have mapped.

use super::attr::kernel_constants;
use super::bytes::ByteReader;

kernel_constants! {
    /// The kinds of records that the kernel writes: `PERF_RECORD_*`.
    record_kind: u32 {
        MMAP = 1,
        LOST = 2,
        COMM = 3,
        EXIT = 4,
        THROTTLE = 5,
        FORK = 7,
        SAMPLE = 9,
        MMAP2 = 10,
        LOST_SAMPLES = 13,
        SWITCH = 14,
        SWITCH_CPU_WIDE = 15,
    }
}

kernel_constants! {
    /// The bits of [`RecordHeader::misc`], most of which have a meaning for only one kind of record.
    misc: u16 {
        MODE_MASK = 7,
        MODE_USER = 2,
        MMAP_DATA = 1 << 13,
        COMM_EXEC = 1 << 13,
        FORK_EXEC = 1 << 13,
        SWITCH_OUT = 1 << 13,
        SWITCH_OUT_PREEMPT = 1 << 14,
        MMAP_BUILD_ID = 1 << 14,
    }
}

/// Eight bytes that every record starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// One of [`record_kind`], or of perf's own.
    pub kind: u32,
    /// Bits of [`misc`].
    pub misc: u16,
    /// The length of the record, including the header.
    pub size: u16,
}

impl RecordHeader {
    /// The length of the header itself.
    pub const SIZE: usize = 8;

    /// Reads the header at the beginning of `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8], big: bool) -> Option<Self> {
        let mut fields = ByteReader::new(bytes, big);
        Some(Self { kind: fields.u32()?, misc: fields.u16()?, size: fields.u16()? })
    }

    /// Returns whether a bit of [`misc`] is set.
    #[inline]
    pub fn has(&self, bit: u16) -> bool {
        self.misc & bit != 0
    }
}

/// A file that a process mapped: `PERF_RECORD_MMAP` and `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The process.
    pub pid: u32,
    /// Where the mapping begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Whether code can run there.
    pub is_executable: bool,
    /// The file's build id, if the record has one.
    pub build_id: Option<&'a [u8]>,
    /// The path, or a name in brackets.
    pub name: &'a [u8],
}

impl<'a> Mmap<'a> {
    /// Reads the body of a record.
    pub fn parse(header: RecordHeader, mut fields: ByteReader<'a>) -> Option<Self> {
        const PROT_EXEC: u32 = 4;
        let (pid, _tid) = (fields.u32()?, fields.u32()?);
        let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut is_executable = !header.has(misc::MMAP_DATA);
        let mut build_id = None;
        if header.kind == record_kind::MMAP2 {
            // A build id, its length first, or the device and the inode.
            let identity = fields.bytes(24)?;
            if header.has(misc::MMAP_BUILD_ID) {
                build_id = Some(&identity[4..4 + usize::from(identity[0]).min(20)]);
            }
            let (protection, _flags) = (fields.u32()?, fields.u32()?);
            is_executable &= protection & PROT_EXEC != 0;
        }
        Some(Self { pid, start, length, offset, is_executable, build_id, name: fields.text() })
    }
}

/// A thread's new name: `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The name.
    pub name: &'a [u8],
    /// Whether the process runs another program from now on.
    pub is_exec: bool,
}

impl<'a> Comm<'a> {
    /// Reads the body of a record.
    pub fn parse(header: RecordHeader, mut fields: ByteReader<'a>) -> Option<Self> {
        let (pid, tid) = (fields.u32()?, fields.u32()?);
        Some(Self { pid, tid, name: fields.text(), is_exec: header.has(misc::COMM_EXEC) })
    }
}

/// A thread or process that started or ended: `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// The process.
    pub pid: u32,
    /// The process that started it.
    pub parent_pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that started it.
    pub parent_tid: u32,
    /// Whether perf found the process running, so that its parent's mappings are not its own.
    pub is_exec: bool,
}

impl TaskChange {
    /// Reads the body of a record.
    pub fn parse(header: RecordHeader, mut fields: ByteReader<'_>) -> Option<Self> {
        Some(Self {
            pid: fields.u32()?,
            parent_pid: fields.u32()?,
            tid: fields.u32()?,
            parent_tid: fields.u32()?,
            is_exec: header.has(misc::FORK_EXEC),
        })
    }
}
