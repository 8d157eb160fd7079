//! `struct perf_event_attr`: what an event counts or samples, and what each of its records holds.

use super::bytes::ByteReader;

/// The first 112 bytes of the structure. Kernels that know fewer accept it if what they do not know is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventAttr {
    /// One of [`event_kind`].
    pub kind: u32,
    size: u32,
    /// Which event of its kind.
    pub config: u64,
    /// A period, or a frequency with [`flag::FREQ`].
    pub sample_period: u64,
    /// Bits of [`sample_bit`].
    pub sample_type: u64,
    /// What reading the event returns.
    pub read_format: u64,
    /// Bits of [`flag`].
    pub flags: u64,
    /// After how many records to wake the reader, or bytes with [`flag::WATERMARK`].
    pub wakeup: u32,
    breakpoint_type: u32,
    /// More about the event.
    pub config1: u64,
    /// More about the event.
    pub config2: u64,
    /// Which branches samples carry.
    pub branch_sample_type: u64,
    /// Which user registers samples carry.
    pub sample_regs_user: u64,
    /// How many bytes of the user stack samples carry.
    pub sample_stack_user: u32,
    /// The clock of the times in records.
    pub clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<EventAttr>() == 112);

impl EventAttr {
    /// Makes an event that records nothing yet.
    pub fn new(kind: u32, config: u64) -> Self {
        Self { kind, config, size: size_of::<Self>() as u32, ..Self::default() }
    }

    /// Returns the same event with these flags set.
    #[must_use]
    pub fn with(mut self, flags: u64) -> Self {
        self.flags |= flags;
        self
    }

    /// Returns the same event with these flags cleared.
    #[must_use]
    pub fn without(mut self, flags: u64) -> Self {
        self.flags &= !flags;
        self
    }

    /// Reads the structure from a file: older kernels made it shorter, newer ones longer.
    pub fn parse(bytes: &[u8], big: bool) -> Option<Self> {
        let mut fields = ByteReader::new(bytes, big);
        let mut attr = Self { kind: fields.u32()?, size: fields.u32()?, ..Self::default() };
        attr.config = fields.u64()?;
        attr.sample_period = fields.u64()?;
        attr.sample_type = fields.u64()?;
        attr.read_format = fields.u64()?;
        // A bit field, not a number: machines of the other byte order fill it from the other end.
        attr.flags = fields.u64().map(|flags| if big { flags.reverse_bits() } else { flags })?;
        attr.wakeup = fields.u32().unwrap_or(0);
        attr.breakpoint_type = fields.u32().unwrap_or(0);
        attr.config1 = fields.u64().unwrap_or(0);
        attr.config2 = fields.u64().unwrap_or(0);
        attr.branch_sample_type = fields.u64().unwrap_or(0);
        attr.sample_regs_user = fields.u64().unwrap_or(0);
        Some(attr)
    }

    /// Returns how the samples of this event are laid out.
    pub fn sample_layout(&self) -> SampleLayout {
        SampleLayout {
            sample_type: self.sample_type,
            read_format: self.read_format,
            branch_sample_type: self.branch_sample_type,
            user_registers: self.sample_regs_user,
        }
    }

    /// Returns whether samples have the field of this [`sample_bit`].
    pub fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Returns the time of a record other than a sample, from the trailer of its `body`.
    pub fn trailer_time(&self, body: &[u8], big: bool) -> Option<u64> {
        const AFTER: [u64; 4] =
            [sample_bit::ID, sample_bit::STREAM_ID, sample_bit::CPU, sample_bit::IDENTIFIER];
        if self.flags & flag::SAMPLE_ID_ALL == 0 || !self.has(sample_bit::TIME) {
            return None;
        }
        let after = AFTER.iter().filter(|&&bit| self.has(bit)).count();
        let start = body.len().checked_sub((after + 1) * 8)?;
        ByteReader::new(&body[start..], big).u64()
    }

    /// Returns the rate in hertz, if one was requested.
    pub fn frequency(&self) -> Option<u64> {
        (self.flags & flag::FREQ != 0).then_some(self.sample_period)
    }

    /// Returns what a sample without a period counts.
    pub fn default_period(&self) -> u64 {
        let is_clock = matches!((self.kind, self.config), (event_kind::SOFTWARE, 0 | 1));
        match self.frequency() {
            None => self.sample_period.max(1),
            Some(hertz) if is_clock => 1_000_000_000 / hertz.max(1),
            Some(_) => 1,
        }
    }
}

/// What determines which fields a sample has. Samples of events with equal layouts are read alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleLayout {
    /// Bits of [`sample_bit`].
    pub sample_type: u64,
    /// As in [`EventAttr`].
    pub read_format: u64,
    /// As in [`EventAttr`].
    pub branch_sample_type: u64,
    /// The mask of user registers.
    pub user_registers: u64,
}

impl SampleLayout {
    const BRANCH_HAS_INDEX: u64 = 1 << 17;
    const BRANCH_CALL_STACK: u64 = 1 << 11;

    /// Returns whether samples have the field of this [`sample_bit`].
    #[inline]
    pub fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    pub(super) fn branches_have_index(&self) -> bool {
        self.branch_sample_type & Self::BRANCH_HAS_INDEX != 0
    }

    /// Returns whether the branches of samples are the open calls (`--call-graph lbr`), and not the last branches
    /// taken.
    pub(super) fn branches_are_calls(&self) -> bool {
        self.branch_sample_type & Self::BRANCH_CALL_STACK != 0
    }
}

/// Defines constants with the kernel's names.
macro_rules! kernel_constants {
    ($(#[$doc:meta])* $module:ident: $type:ty { $($name:ident = $value:expr,)* }) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "the kernel's header documents them")]
        pub mod $module {
            $(pub const $name: $type = $value;)*
        }
    };
}
pub(super) use kernel_constants;

kernel_constants! {
    /// The kinds of events: `PERF_TYPE_*`.
    event_kind: u32 {
        HARDWARE = 0,
        SOFTWARE = 1,
        TRACEPOINT = 2,
        HARDWARE_CACHE = 3,
        RAW = 4,
    }
}

kernel_constants! {
    /// The numbers of the events that the kernel defines itself: `PERF_COUNT_*`.
    config: u64 {
        CPU_CYCLES = 0,
        CPU_CLOCK = 0,
        TASK_CLOCK = 1,
        CONTEXT_SWITCHES = 3,
        DUMMY = 9,
    }
}

kernel_constants! {
    /// The bits of [`EventAttr::flags`].
    flag: u64 {
        DISABLED = 1,
        INHERIT = 1 << 1,
        EXCLUDE_KERNEL = 1 << 5,
        EXCLUDE_HV = 1 << 6,
        MMAP = 1 << 8,
        COMM = 1 << 9,
        FREQ = 1 << 10,
        ENABLE_ON_EXEC = 1 << 12,
        TASK = 1 << 13,
        WATERMARK = 1 << 14,
        SAMPLE_ID_ALL = 1 << 18,
        EXCLUDE_CALLCHAIN_USER = 1 << 22,
        MMAP2 = 1 << 23,
        COMM_EXEC = 1 << 24,
        USE_CLOCKID = 1 << 25,
        CONTEXT_SWITCH = 1 << 26,
        BUILD_ID = 1 << 34,
    }
}

kernel_constants! {
    /// The bits of [`EventAttr::sample_type`]: `PERF_SAMPLE_*`.
    sample_bit: u64 {
        IP = 1,
        TID = 1 << 1,
        TIME = 1 << 2,
        ADDR = 1 << 3,
        READ = 1 << 4,
        CALLCHAIN = 1 << 5,
        ID = 1 << 6,
        CPU = 1 << 7,
        PERIOD = 1 << 8,
        STREAM_ID = 1 << 9,
        RAW = 1 << 10,
        BRANCH_STACK = 1 << 11,
        REGS_USER = 1 << 12,
        STACK_USER = 1 << 13,
        IDENTIFIER = 1 << 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attr of the software clock at 99 Hz, with these bytes as its flags.
    fn attr(word: fn(u64) -> [u8; 8], flags: [u8; 8]) -> Vec<u8> {
        let (mut kind, size) = (word(1), word(64));
        if kind[0] == 1 {
            kind[4..].copy_from_slice(&size[..4]);
        } else {
            kind = [[0, 0, 0, 1], [0, 0, 0, 64]].concat().try_into().unwrap();
        }
        [kind, word(0), word(99), word(1), word(0), flags].concat()
    }

    #[test]
    fn flags_of_machines_of_the_other_byte_order() {
        // `freq` is the eleventh bit and `sample_id_all` the nineteenth, counted from either end of each byte.
        let little =
            EventAttr::parse(&attr(u64::to_le_bytes, [0, 1 << 2, 1 << 2, 0, 0, 0, 0, 0]), false).unwrap();
        let big =
            EventAttr::parse(&attr(u64::to_be_bytes, [0, 1 << 5, 1 << 5, 0, 0, 0, 0, 0]), true).unwrap();
        assert_eq!(big, little);
        assert_eq!((big.frequency(), big.flags & flag::SAMPLE_ID_ALL), (Some(99), flag::SAMPLE_ID_ALL));
        assert_eq!(big.plain_name(), "cpu-clock");
    }

    #[test]
    fn an_attr_of_the_first_layout_has_no_branches() {
        let mut bytes = attr(u64::to_le_bytes, [0; 8]);
        bytes.extend([0xff; 16]);
        let attr = EventAttr::parse(&bytes, false).unwrap();
        assert_eq!((attr.branch_sample_type, attr.sample_regs_user), (0, 0));
    }
}
