//! The protobuf wire format, as far as pprof needs it. Nothing that the bytes say is trusted.

use crate::{Error, ErrorKind, Result};

/// The value of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A 32- or 64-bit fixed value, which no field of pprof uses.
    Fixed,
}

/// Walks the fields of one message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, or `None` at the end of the message.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|&number| number != 0);
        let number = number.ok_or_else(|| wrong("a field has an impossible number"))?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => self.skip(8)?,
            2 => {
                let length = varint(&mut self.rest)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.skip(4)?,
            _ => return Err(wrong("a field has an unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).ok().filter(|&length| length <= self.rest.len());
        let length = length.ok_or_else(truncated)?;
        let (head, tail) = self.rest.split_at(length);
        self.rest = tail;
        Ok(head)
    }

    fn skip(&mut self, length: u64) -> Result<Value<'a>> {
        self.take(length).map(|_| Value::Fixed)
    }
}

impl<'a> Value<'a> {
    pub(super) fn uint(self) -> Result<u64> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(wrong("a number is stored as something else")),
        }
    }

    pub(super) fn int(self) -> Result<i64> {
        self.uint().map(|value| value as i64)
    }

    pub(super) fn bool(self) -> Result<bool> {
        self.uint().map(|value| value != 0)
    }

    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(wrong("a message is stored as a number")),
        }
    }

    /// How many numbers a repeated field has, packed or not: each ends with a byte below 128.
    #[inline]
    pub(super) fn count(self) -> usize {
        match self {
            Self::Varint(_) => 1,
            Self::Bytes(packed) => packed.iter().filter(|&&byte| byte < 0x80).count(),
            Self::Fixed => 0,
        }
    }

    /// Calls `each` with every number of a repeated field, packed or not.
    #[inline]
    pub(super) fn each_uint(self, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        match self {
            Self::Varint(value) => each(value),
            Self::Bytes(mut packed) => {
                while !packed.is_empty() {
                    each(varint(&mut packed)?)?;
                }
                Ok(())
            }
            Self::Fixed => Err(wrong("a list of numbers is stored as something else")),
        }
    }
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64> {
    // Ids and line numbers: nearly all take one to three bytes.
    match rest {
        [byte @ 0..=0x7f, tail @ ..] => {
            *rest = tail;
            Ok(u64::from(*byte))
        }
        [low, byte @ 0..=0x7f, tail @ ..] => {
            *rest = tail;
            Ok(u64::from(low & 0x7f) | u64::from(*byte) << 7)
        }
        [low, middle, byte @ 0..=0x7f, tail @ ..] => {
            *rest = tail;
            Ok(u64::from(low & 0x7f) | u64::from(middle & 0x7f) << 7 | u64::from(*byte) << 14)
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for (index, &byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(if rest.len() < 10 { truncated() } else { wrong("a number is longer than ten bytes") })
}

/// Undoes the zigzag that makes small negative numbers short.
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn truncated() -> Error {
    Error::new(ErrorKind::Truncated, "the profile ends in the middle: the file is truncated")
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::WrongFormat, format!("not a pprof profile: {what}"))
}

/// Writes a message. Fields that hold their default are left out, as protobuf does.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends fields that were written into another message.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn uint(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.varint(u64::from(number) << 3);
            self.varint(value);
        }
    }

    pub(super) fn int(&mut self, number: u32, value: i64) {
        self.uint(number, value as u64);
    }

    pub(super) fn bool(&mut self, number: u32, value: bool) {
        self.uint(number, u64::from(value));
    }

    /// A message or string, written even when it is empty.
    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A packed list of numbers; nothing when it is empty.
    pub(super) fn packed(&mut self, number: u32, values: impl Iterator<Item = u64> + Clone) {
        let length: usize = values.clone().map(varint_length).sum();
        if length == 0 {
            return;
        }
        self.varint(u64::from(number) << 3 | 2);
        self.varint(length as u64);
        values.for_each(|value| self.varint(value));
    }
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Makes small negative numbers short.
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_wire() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut message = Message::default();
        message.packed(3, numbers.iter().copied());
        let (number, value) = Fields::new(message.as_bytes()).next().unwrap().unwrap();
        let mut read = Vec::new();
        let mut push = |value| {
            read.push(value);
            Ok(())
        };
        value.each_uint(&mut push).unwrap();
        assert_eq!((number, &read[..]), (3, &numbers[..]));
    }

    #[test]
    fn zigzag_is_its_own_inverse() {
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn a_length_past_the_end_is_truncation() {
        let error = Fields::new(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated);
    }

    #[test]
    fn an_endless_number_is_refused() {
        let error = Fields::new(&[0xff; 11]).next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongFormat);
    }
}
