//! What was sampled: `perf_event_attr`.

use super::fields::Fields;

/// The bits of `sample_type` that matter here.
pub(super) mod bit {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const REGS_USER: u64 = 1 << 12;
    pub(in super::super) const STACK_USER: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

const FLAG_FREQUENCY: u64 = 1 << 10;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const BRANCH_HAS_INDEX: u64 = 1 << 17;
const BRANCH_CALL_STACK: u64 = 1 << 11;

/// One event of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub(super) kind: u32,
    pub(super) config: u64,
    period_or_frequency: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    flags: u64,
    branch_type: u64,
    pub(super) user_registers: u64,
}

impl Attr {
    /// Reads the structure, which newer kernels have made longer.
    pub(super) fn parse(bytes: &[u8], big: bool) -> Option<Self> {
        let mut fields = Fields::new(bytes, big);
        let kind = fields.u32()?;
        fields.u32()?; // its size
        let config = fields.u64()?;
        let period_or_frequency = fields.u64()?;
        let sample_type = fields.u64()?;
        let read_format = fields.u64()?;
        // A bit field and no number: machines of the other byte order fill it from the other end.
        let flags = fields.u64().map(|flags| if big { flags.reverse_bits() } else { flags })?;
        // Later fields are missing in old files.
        fields.bytes(24);
        let branch_type = fields.u64().unwrap_or(0);
        let user_registers = fields.u64().unwrap_or(0);
        Some(Self {
            kind,
            config,
            period_or_frequency,
            sample_type,
            read_format,
            flags,
            branch_type,
            user_registers,
        })
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Whether samples of both look alike.
    pub(super) fn has_layout_of(&self, other: &Self) -> bool {
        let layout =
            |attr: &Self| (attr.sample_type, attr.read_format, attr.user_registers, attr.branch_type);
        layout(self) == layout(other)
    }

    /// Whether records other than samples end with the time and the thread too.
    pub(super) fn stamps_all(&self) -> bool {
        self.flags & FLAG_SAMPLE_ID_ALL != 0
    }

    pub(super) fn branches_have_index(&self) -> bool {
        self.branch_type & BRANCH_HAS_INDEX != 0
    }

    /// Whether the branches of samples are the calls that are open (`--call-graph lbr`), and not the last ones taken.
    pub(super) fn branches_are_calls(&self) -> bool {
        self.branch_type & BRANCH_CALL_STACK != 0
    }

    /// The asked rate in hertz, when one was asked for.
    pub(super) fn frequency(&self) -> Option<u64> {
        (self.flags & FLAG_FREQUENCY != 0).then_some(self.period_or_frequency)
    }

    /// What a sample without a period counts.
    pub(super) fn default_period(&self) -> u64 {
        match self.frequency() {
            None => self.period_or_frequency.max(1),
            Some(hertz) if self.counts_nanoseconds() => 1_000_000_000 / hertz.max(1),
            Some(_) => 1,
        }
    }

    fn counts_nanoseconds(&self) -> bool {
        matches!((self.kind, self.config), (1, 0 | 1))
    }

    /// What the event is called when the file does not say.
    pub(super) fn plain_name(&self) -> String {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 7] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
        ];
        let names: &[&str] = match self.kind {
            0 => &HARDWARE,
            1 => &SOFTWARE,
            _ => &[],
        };
        let known = usize::try_from(self.config).ok().and_then(|config| names.get(config));
        known.map_or_else(|| format!("event {}:{:#x}", self.kind, self.config), |&name| name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attr of the software clock at 99 Hz, whose flags are these bytes.
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
        let little = Attr::parse(&attr(u64::to_le_bytes, [0, 1 << 2, 1 << 2, 0, 0, 0, 0, 0]), false).unwrap();
        let big = Attr::parse(&attr(u64::to_be_bytes, [0, 1 << 5, 1 << 5, 0, 0, 0, 0, 0]), true).unwrap();
        assert_eq!(big, little);
        assert_eq!((big.frequency(), big.stamps_all()), (Some(99), true));
        assert_eq!(big.plain_name(), "cpu-clock");
    }
}
