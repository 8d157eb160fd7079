//! The header of a chunk, and its numbers and strings.

use std::rc::Rc;

use flamelet_profile::{Error, ErrorKind, Result};

/// The longest text; real ones are names and the command line.
const LONGEST_TEXT: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct ChunkHeader {
    pub(super) size: i64,
    pub(super) constants_offset: i64,
    pub(super) metadata_offset: i64,
    start_nanos: i64,
    start_ticks: i64,
    ticks_per_second: i64,
    /// Whether numbers have variable length.
    pub(super) compressed: bool,
}

impl ChunkHeader {
    pub(super) const SIZE: usize = 68;

    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(super::MAGIC) {
            return Err(Error::new(ErrorKind::Corrupt, "a chunk of the flight recording has a wrong header"));
        }
        let header = bytes.get(..Self::SIZE);
        let header = header.ok_or_else(|| {
            Error::new(ErrorKind::Truncated, "the flight recording ends in the middle of a header")
        })?;
        let long = |at: usize| i64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let major = u16::from_be_bytes([header[4], header[5]]);
        if major != 2 && major != 1 {
            let message = format!("unsupported flight recording version {major}");
            return Err(Error::new(ErrorKind::WrongFormat, message));
        }
        Ok(Self {
            size: long(8),
            constants_offset: long(16),
            metadata_offset: long(24),
            start_nanos: long(32),
            start_ticks: long(48),
            ticks_per_second: long(56).max(1),
            compressed: header[67] & 1 == 1,
        })
    }

    pub(super) fn at<'a>(&self, chunk: &'a [u8], offset: i64) -> Option<&'a [u8]> {
        chunk.get(usize::try_from(offset).ok().filter(|&offset| offset >= Self::SIZE)?..)
    }

    /// Converts ticks to nanoseconds since 1970.
    pub(super) fn nanos(&self, ticks: i64) -> u64 {
        let since = self.duration_nanos(ticks.saturating_sub(self.start_ticks));
        u64::try_from(self.start_nanos.saturating_add(since)).unwrap_or(0)
    }

    pub(super) fn duration_nanos(&self, ticks: i64) -> i64 {
        (ticks as f64 * 1e9 / self.ticks_per_second as f64) as i64
    }
}

/// The bytes of an event.
pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    compressed: bool,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8], compressed: bool) -> Self {
        Self { bytes, compressed }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads the size of an event, which has fixed length if numbers do.
    pub(super) fn size(&mut self) -> Option<i64> {
        self.int()
    }

    /// Reads a number of `width` bytes, or a variable-length one: seven bits per byte, and eight in the ninth.
    fn number(&mut self, width: usize) -> Option<i64> {
        if !self.compressed {
            let bytes = self.take(width)?;
            return Some(bytes.iter().fold(0i64, |sum, &byte| sum << 8 | i64::from(byte)));
        }
        let mut number = 0u64;
        for at in 0..9 {
            let byte = u64::from(self.byte()?);
            if at == 8 {
                number |= byte << 56;
                break;
            }
            number |= (byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                break;
            }
        }
        Some(number as i64)
    }

    pub(super) fn short(&mut self) -> Option<i64> {
        self.number(2)
    }

    pub(super) fn int(&mut self) -> Option<i64> {
        self.number(4)
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        self.number(8)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    /// Reads a string, or the number of one in the constants.
    pub(super) fn string(&mut self) -> Option<StringOrNumber> {
        let text = match self.byte()? {
            0 | 1 => String::new(),
            2 => return self.long().map(StringOrNumber::Number),
            3 => {
                let length = usize::try_from(self.int()?).ok().filter(|&length| length <= LONGEST_TEXT)?;
                String::from_utf8_lossy(self.take(length)?).into_owned()
            }
            4 => {
                let length = usize::try_from(self.int()?).ok().filter(|&length| length <= LONGEST_TEXT)?;
                (0..length)
                    .map(|_| self.short().map(|unit| unit as u16))
                    .collect::<Option<Vec<_>>>()
                    .map(|units| String::from_utf16_lossy(&units))?
            }
            5 => {
                let length = usize::try_from(self.int()?).ok().filter(|&length| length <= LONGEST_TEXT)?;
                self.take(length)?.iter().map(|&byte| char::from(byte)).collect()
            }
            _ => return None,
        };
        Some(StringOrNumber::Text(text.into()))
    }
}

/// A string, or a reference to one.
pub(super) enum StringOrNumber {
    Text(Rc<str>),
    Number(i64),
}
