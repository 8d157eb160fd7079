//! `struct perf_event_attr`, as the kernel's header defines its first 112 bytes.

/// What to count or sample, and what each record is to hold.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    size: u32,
    pub(crate) config: u64,
    /// A period, or a frequency with [`flag::FREQ`].
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    /// A number of records, or of bytes with [`flag::WATERMARK`].
    pub(crate) wakeup: u32,
    breakpoint_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == 112);

impl Attr {
    /// An event of the given type and number that records nothing yet.
    pub(crate) fn new(kind: u32, config: u64) -> Self {
        Self { kind, config, size: size_of::<Self>() as u32, ..Self::default() }
    }

    pub(crate) fn with(mut self, flags: u64) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn without(mut self, flags: u64) -> Self {
        self.flags &= !flags;
        self
    }
}

/// The types of events.
pub(crate) mod kind {
    pub(crate) const HARDWARE: u32 = 0;
    pub(crate) const SOFTWARE: u32 = 1;
    pub(crate) const TRACEPOINT: u32 = 2;
    pub(crate) const HARDWARE_CACHE: u32 = 3;
    pub(crate) const RAW: u32 = 4;
}

/// The numbers of the events that recordings choose themselves.
pub(crate) mod config {
    pub(crate) const CPU_CYCLES: u64 = 0;
    pub(crate) const CPU_CLOCK: u64 = 0;
    pub(crate) const CONTEXT_SWITCHES: u64 = 3;
    pub(crate) const DUMMY: u64 = 9;
}

/// The bits of [`Attr::flags`].
pub(crate) mod flag {
    pub(crate) const DISABLED: u64 = 1;
    pub(crate) const INHERIT: u64 = 1 << 1;
    pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(crate) const EXCLUDE_HV: u64 = 1 << 6;
    pub(crate) const MMAP: u64 = 1 << 8;
    pub(crate) const COMM: u64 = 1 << 9;
    pub(crate) const FREQ: u64 = 1 << 10;
    pub(crate) const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub(crate) const TASK: u64 = 1 << 13;
    pub(crate) const WATERMARK: u64 = 1 << 14;
    pub(crate) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(crate) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub(crate) const MMAP2: u64 = 1 << 23;
    pub(crate) const COMM_EXEC: u64 = 1 << 24;
    pub(crate) const USE_CLOCKID: u64 = 1 << 25;
    pub(crate) const CONTEXT_SWITCH: u64 = 1 << 26;
    pub(crate) const BUILD_ID: u64 = 1 << 34;
}

/// The bits of [`Attr::sample_type`].
pub(crate) mod sample {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
    /// What every event of a recording carries, so that every record ends in the same trailer.
    pub(crate) const BASE: u64 = IDENTIFIER | IP | TID | TIME;
}
