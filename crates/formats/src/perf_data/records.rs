//! The records that say which processes there were and what they had mapped.

use super::fields::Fields;

/// Numbers of records.
pub(super) mod kind {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const EXIT: u32 = 4;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    pub(in super::super) const HEADER_ATTR: u32 = 64;
    pub(in super::super) const HEADER_TRACING_DATA: u32 = 66;
    pub(in super::super) const HEADER_BUILD_ID: u32 = 67;
    pub(in super::super) const FINISHED_ROUND: u32 = 68;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const EVENT_UPDATE: u32 = 78;
    pub(in super::super) const HEADER_FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    pub(in super::super) const COMPRESSED2: u32 = 83;
    /// The first number that perf itself uses, not the kernel.
    pub(in super::super) const FIRST_OF_PERF: u32 = 64;
}

/// In `misc`: the mapping is data.
const MISC_MMAP_DATA: u16 = 1 << 13;
/// In `misc` of `COMM`: the process runs another program from now on.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// In `misc` of `MMAP2`: the build id stands where the inode would.
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;

/// Eight bytes that every record starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// The header included.
    pub(super) size: u16,
}

impl RecordHeader {
    pub(super) const SIZE: usize = 8;

    pub(super) fn parse(bytes: &[u8], big: bool) -> Option<Self> {
        let mut fields = Fields::new(bytes, big);
        Some(Self { kind: fields.u32()?, misc: fields.u16()?, size: fields.u16()? })
    }
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mmap {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) name: String,
    pub(super) executable: bool,
    pub(super) build_id: Vec<u8>,
}

impl Mmap {
    pub(super) fn parse(header: RecordHeader, mut fields: Fields<'_>) -> Option<Self> {
        let pid = fields.u32()?;
        fields.u32()?; // the thread
        let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut executable = header.misc & MISC_MMAP_DATA == 0;
        let mut build_id = Vec::new();
        if header.kind == kind::MMAP2 {
            let identity = fields.bytes(24)?;
            if header.misc & MISC_MMAP_BUILD_ID != 0 {
                let size = usize::from(identity[0]).min(20);
                build_id = identity[4..4 + size].to_vec();
            }
            executable &= fields.u32()? & PROT_EXEC != 0;
            fields.u32()?; // flags
        }
        Some(Self { pid, start, length, offset, name: fields.text(), executable, build_id })
    }
}

/// A thread's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comm {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) is_exec: bool,
}

impl Comm {
    pub(super) fn parse(header: RecordHeader, mut fields: Fields<'_>) -> Option<Self> {
        let (pid, tid) = (fields.u32()?, fields.u32()?);
        Some(Self { pid, tid, name: fields.text(), is_exec: header.misc & MISC_COMM_EXEC != 0 })
    }
}

/// In `misc` of `FORK`: perf found the process running, so its parent's mappings are not its own.
const MISC_FORK_EXEC: u16 = 1 << 13;

/// A thread or process that was started, or that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    pub(super) is_exec: bool,
    pub(super) pid: u32,
    pub(super) parent_pid: u32,
    pub(super) tid: u32,
    pub(super) parent_tid: u32,
}

impl Fork {
    pub(super) fn parse(header: RecordHeader, mut fields: Fields<'_>) -> Option<Self> {
        Some(Self {
            is_exec: header.misc & MISC_FORK_EXEC != 0,
            pid: fields.u32()?,
            parent_pid: fields.u32()?,
            tid: fields.u32()?,
            parent_tid: fields.u32()?,
        })
    }
}
