//! The protobuf wire format: [`Fields`] reads a message without copying it, [`MessageWriter`] writes one. Each format
//! based on protobuf has its own field numbers. No length and no number in the bytes is trusted.

use crate::{Error, ErrorKind, Result};

/// The value of one field, as it is encoded.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// A variable-length number.
    Varint(u64),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// An eight-byte number.
    Fixed64(u64),
    /// A four-byte number.
    Fixed32(u32),
}

/// Iterates over the fields of one message.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Starts at the first field of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the next field's number and value, or `None` at the end of the message.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator of results would not end at the first error"
    )]
    pub fn next(&mut self) -> Result<Option<(u32, FieldValue<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|&number| number != 0);
        let number = number.ok_or_else(|| wrong("a field has an invalid number"))?;
        let value = match key & 7 {
            0 => FieldValue::Varint(varint(&mut self.rest)?),
            1 => FieldValue::Fixed64(u64::from_le_bytes(*self.chunk()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                FieldValue::Bytes(self.take(length)?)
            }
            5 => FieldValue::Fixed32(u32::from_le_bytes(*self.chunk()?)),
            _ => return Err(wrong("a field has an unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    /// Returns the fields that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).ok().filter(|&length| length <= self.rest.len());
        let length = length.ok_or_else(truncated)?;
        let (head, tail) = self.rest.split_at(length);
        self.rest = tail;
        Ok(head)
    }

    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(head)
    }
}

impl<'a> FieldValue<'a> {
    /// Reads an unsigned number.
    pub fn uint(self) -> Result<u64> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(wrong("a number has the wrong wire type")),
        }
    }

    /// Reads a signed number that is not zigzag encoded.
    pub fn int(self) -> Result<i64> {
        self.uint().map(|value| value as i64)
    }

    /// Reads a flag.
    pub fn bool(self) -> Result<bool> {
        self.uint().map(|value| value != 0)
    }

    /// Reads a number of the type `fixed64`.
    pub fn fixed64(self) -> Result<u64> {
        match self {
            Self::Fixed64(value) => Ok(value),
            _ => Err(wrong("a fixed number has the wrong wire type")),
        }
    }

    /// Reads a message or a string.
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(wrong("a message has the wrong wire type")),
        }
    }

    /// Returns how many numbers a repeated field has, packed or not: each ends with a byte below 128.
    #[inline]
    pub fn count(self) -> usize {
        match self {
            Self::Varint(_) => 1,
            Self::Bytes(packed) => count_ends(packed),
            Self::Fixed64(_) | Self::Fixed32(_) => 0,
        }
    }

    /// Calls `each` with every number of a repeated field, packed or not.
    #[inline]
    pub fn each_uint(self, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        for number in self.uints()? {
            each(number?)?;
        }
        Ok(())
    }

    /// Returns every number of a repeated field, packed or not.
    #[inline]
    pub fn uints(self) -> Result<Uints<'a>> {
        match self {
            Self::Varint(value) => Ok(Uints { one: Some(value), packed: &[] }),
            Self::Bytes(packed) => Ok(Uints { one: None, packed }),
            Self::Fixed64(_) | Self::Fixed32(_) => Err(wrong("a list of numbers has the wrong wire type")),
        }
    }

    /// Returns the numbers of a repeated field of the type `fixed64`, packed or not.
    pub fn fixed64s(self) -> Result<impl Iterator<Item = u64> + 'a> {
        let (one, packed) = match self {
            Self::Bytes(packed) => (None, packed),
            other => (Some(other.fixed64()?), &[][..]),
        };
        let (chunks, rest) = packed.as_chunks();
        let numbers = one.into_iter().chain(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)));
        if rest.is_empty() {
            Ok(numbers)
        } else {
            Err(wrong("a list of fixed numbers ends in the middle of one"))
        }
    }
}

/// Returns how many bytes are below 128, eight at a time.
fn count_ends(packed: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (words, rest) = packed.as_chunks();
    // Each byte of the sum counts up to 31 ends, and all eight together are less than 256.
    let sum = |sum: u64, word: &[u8; 8]| sum + (!u64::from_le_bytes(*word) >> 7 & ONES);
    let of_words = words.chunks(31).map(|words| words.iter().fold(0, sum).wrapping_mul(ONES) >> 56);
    of_words.sum::<u64>() as usize + rest.iter().filter(|&&byte| byte < 0x80).count()
}

/// The numbers of a repeated field. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Uints<'a> {
    one: Option<u64>,
    packed: &'a [u8],
}

impl Iterator for Uints<'_> {
    type Item = Result<u64>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        // The lengths of ids are as good as random, so a branch on each would often be mispredicted: up to four bytes
        // are taken out of a word in one way.
        if let Some(word) = self.packed.first_chunk() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080;
            if ends != 0 {
                let last = ends.trailing_zeros();
                let bits = word & (u64::MAX >> (63 - last));
                self.packed = &self.packed[last as usize / 8 + 1..];
                return Some(Ok(bits & 0x7f
                    | bits >> 1 & 0x3f80
                    | bits >> 2 & 0x1f_c000
                    | bits >> 3 & 0xfe0_0000));
            }
        }
        self.next_of_any_length()
    }
}

impl Uints<'_> {
    /// Returns the next number unless only `rest` bytes of a packed list are left.
    #[inline(always)]
    pub(crate) fn next_before(&mut self, rest: usize) -> Option<Result<u64>> {
        if self.packed.len() == rest && rest > 0 { None } else { self.next() }
    }

    fn next_of_any_length(&mut self) -> Option<Result<u64>> {
        if self.packed.is_empty() {
            return self.one.take().map(Ok);
        }
        let number = varint(&mut self.packed);
        if number.is_err() {
            self.packed = &[];
        }
        Some(number)
    }
}

/// Takes a variable-length number from the beginning of `rest`.
#[inline]
pub fn varint(rest: &mut &[u8]) -> Result<u64> {
    // Most are ids and line numbers, and nearly all take one to three bytes.
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

/// Returns a message or a string in `message`: the last field with this number, empty if there is none.
pub fn bytes_field(message: &[u8], wanted: u32) -> Result<&[u8]> {
    let (mut fields, mut found) = (Fields::new(message), &[][..]);
    while let Some((number, value)) = fields.next()? {
        if let (true, FieldValue::Bytes(bytes)) = (number == wanted, value) {
            found = bytes;
        }
    }
    Ok(found)
}

/// Undoes zigzag encoding, which makes small negative numbers short.
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn truncated() -> Error {
    Error::new(ErrorKind::Truncated, "the protobuf message is truncated")
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::WrongFormat, format!("not a valid protobuf message: {what}"))
}

/// Writes a message. Numbers that are 0 are left out, as usual in protobuf.
#[derive(Clone, Debug, Default)]
pub struct MessageWriter {
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// Creates an empty message with room for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Empties the message but keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the fields written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends fields that were written into another message.
    pub fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    /// Returns the finished message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Writes an unsigned number.
    pub fn uint(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.uint_of_oneof(number, value);
        }
    }

    /// Writes a number of a `oneof`, which is written even when it is 0.
    pub fn uint_of_oneof(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    /// Writes a number of the type `fixed64`.
    pub fn fixed64(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.varint(u64::from(number) << 3 | 1);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Writes a signed number, not zigzag encoded.
    pub fn int(&mut self, number: u32, value: i64) {
        self.uint(number, value as u64);
    }

    /// Writes a flag.
    pub fn bool(&mut self, number: u32, value: bool) {
        self.uint(number, u64::from(value));
    }

    /// Writes a message that `write` fills, written even when it is empty.
    pub fn message(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.bytes);
    }

    /// Writes a message or string, written even when it is empty.
    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a packed list of numbers; nothing when it is empty.
    pub fn packed(&mut self, number: u32, values: impl Iterator<Item = u64> + Clone) {
        let length: usize = values.clone().map(varint_length).sum();
        if length == 0 {
            return;
        }
        self.varint(u64::from(number) << 3 | 2);
        self.varint(length as u64);
        values.for_each(|value| self.varint(value));
    }

    /// Writes a packed list of numbers of the type `fixed64`; nothing when it is empty.
    pub fn packed_fixed64(&mut self, number: u32, values: &[u64]) {
        if !values.is_empty() {
            self.varint(u64::from(number) << 3 | 2);
            self.varint(size_of_val(values) as u64);
            values.iter().for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
        }
    }
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Applies zigzag encoding, which makes small negative numbers short.
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_wire() {
        // Numbers of every length, with others after them and without.
        let limits = (0..9).flat_map(|length| [(1 << (7 * length)) - 1, 1 << (7 * length)]);
        let numbers: Vec<u64> = limits.chain([300, u64::from(u32::MAX), u64::MAX, 1, 20_000]).collect();
        let mut message = MessageWriter::default();
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
    fn numbers_are_counted_by_their_last_bytes() {
        for length in [0, 1, 7, 8, 9, 250, 600] {
            let bytes: Vec<u8> = (0..length).map(|at: usize| (at * 37 % 251) as u8).collect();
            let expected = bytes.iter().filter(|&&byte| byte < 0x80).count();
            assert_eq!(FieldValue::Bytes(&bytes).count(), expected, "{length}");
            assert_eq!(FieldValue::Bytes(&vec![0; length]).count(), length);
        }
    }

    #[test]
    fn a_list_ends_with_its_first_error() {
        let cut = FieldValue::Bytes(&[1, 0x80, 0x80]);
        let numbers: Vec<Option<u64>> = cut.uints().unwrap().map(Result::ok).collect();
        assert_eq!(numbers, [Some(1), None]);
        assert_eq!(FieldValue::Varint(7).uints().unwrap().next().unwrap().unwrap(), 7);
    }

    #[test]
    fn fixed_numbers_survive_the_wire() {
        let mut message = MessageWriter::default();
        message.fixed64(1, 7);
        message.packed_fixed64(2, &[u64::MAX, 0]);
        let mut fields = Fields::new(message.as_bytes());
        let (_, one) = fields.next().unwrap().unwrap();
        let (_, two) = fields.next().unwrap().unwrap();
        assert_eq!(one.fixed64s().unwrap().collect::<Vec<_>>(), [7]);
        assert_eq!(two.fixed64s().unwrap().collect::<Vec<_>>(), [u64::MAX, 0]);
        assert!(FieldValue::Bytes(&[0; 9]).fixed64s().is_err());
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
