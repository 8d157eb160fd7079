//! Records in a file: a header with checksums, then compressed bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | [`MARK`], by which records are found again after damage |
//! | 4 | length of the body when it is unpacked |
//! | 4 | length of what follows the header; the highest bit is set if that begins with a tag |
//! | 4 | CRC-32 of what follows the header |
//! | 4 | CRC-32 of the 16 bytes before |
//! | [`TAG`], or none | a tag: says what the body is about, and is read without unpacking it |
//! | the rest | the body (deflate) |
//!
//! All numbers are little endian. What a reader trusts, it has checked: a record whose header or body does not match
//! its checksum is skipped.

use std::io::Write;

use flamelet_profile::{Budget, Error, ErrorKind, Result};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc, Decompress, FlushDecompress, Status};

/// How a record begins.
pub const MARK: [u8; 4] = [0xf1, 0xa3, 0x1e, 0x70];
/// The length of a record's header.
pub const HEADER: usize = 20;
/// The length of a tag.
pub const TAG: usize = 20;
/// Set in the length of what follows the header if that begins with a tag.
const HAS_TAG: u32 = 1 << 31;
/// The longest body, packed or not.
pub const MAX_BODY: usize = 16 << 20;

/// How well a record is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For what is kept for days.
    Small,
    /// For what is soon replaced: faster, and larger.
    Fast,
    /// For what is compressed already.
    None,
}

/// Returns a record with this body.
pub fn pack(body: &[u8], effort: Effort) -> Result<Vec<u8>> {
    pack_with(None, body, effort)
}

/// Returns a record with this body and a tag.
pub(crate) fn pack_tagged(tag: &[u8; TAG], body: &[u8], effort: Effort) -> Result<Vec<u8>> {
    pack_with(Some(tag), body, effort)
}

fn pack_with(tag: Option<&[u8; TAG]>, body: &[u8], effort: Effort) -> Result<Vec<u8>> {
    if body.len() > MAX_BODY {
        return Err(Error::new(ErrorKind::TooLarge, "the window is too large for a record of the history"));
    }
    let level = match effort {
        Effort::Small => Compression::default(),
        Effort::Fast => Compression::fast(),
        Effort::None => Compression::none(),
    };
    let mut start = vec![0; HEADER];
    start.extend_from_slice(tag.map_or(&[], |tag| tag));
    let mut encoder = DeflateEncoder::new(start, level);
    encoder.write_all(body)?;
    let mut record = encoder.finish()?;
    let stored = (record.len() - HEADER) as u32 | if tag.is_some() { HAS_TAG } else { 0 };
    let body_sum = checksum(&record[HEADER..]);
    record[..4].copy_from_slice(&MARK);
    for (at, number) in [body.len() as u32, stored, body_sum].into_iter().enumerate() {
        record[4 + at * 4..8 + at * 4].copy_from_slice(&number.to_le_bytes());
    }
    let header_sum = checksum(&record[..HEADER - 4]);
    record[HEADER - 4..HEADER].copy_from_slice(&header_sum.to_le_bytes());
    Ok(record)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A record whose checksums are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored<'a> {
    unpacked: usize,
    tag: Option<&'a [u8; TAG]>,
    packed: &'a [u8],
    /// Of the whole record.
    length: usize,
}

impl<'a> Stored<'a> {
    /// Returns the record at the beginning of `bytes` if it is whole and good.
    fn at(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let number = |at: usize| {
            let word = header[at..].first_chunk().copied().unwrap_or_default();
            u32::from_le_bytes(word)
        };
        if header[..4] != MARK || checksum(&header[..HEADER - 4]) != number(HEADER - 4) {
            return None;
        }
        let (unpacked, length) = (number(4) as usize, HEADER + (number(8) & !HAS_TAG) as usize);
        let stored = bytes.get(HEADER..length)?;
        let (tag, packed) = match number(8) & HAS_TAG {
            0 => (None, stored),
            _ => stored.split_first_chunk().map(|(tag, packed)| (Some(tag), packed))?,
        };
        let is_good = unpacked <= MAX_BODY && checksum(stored) == number(12);
        is_good.then_some(Self { unpacked, tag, packed, length })
    }
}

/// Returns how many records there are in `bytes`, if nothing else is in it and all of them are good.
pub(crate) fn count(mut bytes: &[u8]) -> Option<usize> {
    let mut records = 0;
    while !bytes.is_empty() {
        bytes = &bytes[Stored::at(bytes)?.length..];
        records += 1;
    }
    Some(records)
}

/// The tag of a record, and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'r> {
    pub(crate) tag: Option<[u8; TAG]>,
    /// `None` if it is not needed.
    pub(crate) body: Option<&'r [u8]>,
}

/// Reads the records of a file one after another.
pub struct Records<'a> {
    rest: &'a [u8],
    budget: &'a Budget,
    inflate: Decompress,
    body: Vec<u8>,
    /// Places where something other than a record was skipped, with a good record after it.
    damaged: usize,
}

impl<'a> Records<'a> {
    /// Starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8], budget: &'a Budget) -> Self {
        Self { rest: bytes, budget, inflate: Decompress::new(false), body: Vec::new(), damaged: 0 }
    }

    /// Returns how many places were skipped because they were damaged. The end of a file that was being written does
    /// not count.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// Returns how many bytes follow the record that was returned last.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }

    /// Returns the body of the next good record, or `None` when there is no further one. Fails only if the budget
    /// has run out.
    #[expect(clippy::should_implement_trait, reason = "it lends its buffer")]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        self.next_beginning(MAX_BODY)
    }

    /// Like [`Records::next`], but unpacks at most the first `most` bytes of the body.
    pub fn next_beginning(&mut self, most: usize) -> Result<Option<&[u8]>> {
        while let Some(stored) = self.find()? {
            self.rest = &self.rest[stored.length..];
            if self.unpack(stored, most)? {
                return Ok(Some(&self.body));
            }
            self.damaged += 1;
        }
        Ok(None)
    }

    /// Like [`Records::next`], with the tag of the record. A body with a tag is unpacked only if it is needed.
    pub(crate) fn next_tagged(
        &mut self,
        mut needs_body: impl FnMut(&[u8; TAG]) -> bool,
    ) -> Result<Option<Record<'_>>> {
        while let Some(stored) = self.find()? {
            self.rest = &self.rest[stored.length..];
            let tag = stored.tag.copied();
            if !tag.as_ref().is_none_or(&mut needs_body) {
                return Ok(Some(Record { tag, body: None }));
            }
            if self.unpack(stored, MAX_BODY)? {
                return Ok(Some(Record { tag, body: Some(&self.body) }));
            }
            self.damaged += 1;
        }
        Ok(None)
    }

    /// Moves to the next good record and returns it.
    fn find(&mut self) -> Result<Option<Stored<'a>>> {
        let mut skipped = false;
        while self.rest.len() >= HEADER {
            self.budget.work(HEADER)?;
            if let Some(stored) = Stored::at(self.rest) {
                self.damaged += usize::from(skipped);
                self.budget.work(stored.packed.len() / 16)?;
                return Ok(Some(stored));
            }
            skipped = true;
            // A false mark may claim a long body, whose checksum was computed in vain.
            self.budget.work(self.rest.len().min(MAX_BODY) / 64)?;
            let next = self.rest[1..].windows(MARK.len()).position(|at| at == MARK);
            self.rest = next.map_or(&[], |at| &self.rest[1 + at..]);
        }
        Ok(None)
    }

    /// Unpacks at most `most` bytes of a record into the buffer. Returns whether it has the length that its header names.
    fn unpack(&mut self, stored: Stored<'_>, most: usize) -> Result<bool> {
        let length = stored.unpacked.min(most);
        if self.body.len() < length {
            self.budget.charge(length - self.body.len())?;
        }
        self.budget.work(length / 16)?;
        self.body.resize(length, 0);
        self.inflate.reset(false);
        let is_whole = length == stored.unpacked;
        let flush = if is_whole { FlushDecompress::Finish } else { FlushDecompress::None };
        let status = self.inflate.decompress(stored.packed, &mut self.body, flush);
        let has_ended = matches!(status, Ok(Status::StreamEnd));
        Ok(self.inflate.total_out() == length as u64 && (has_ended || (!is_whole && status.is_ok())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::Limits;

    fn bodies() -> Vec<Vec<u8>> {
        vec![b"first".to_vec(), vec![7; 3000], Vec::new(), (0..=255).collect()]
    }

    fn log() -> Vec<u8> {
        records().concat()
    }

    fn records() -> Vec<Vec<u8>> {
        let efforts = [Effort::Small, Effort::None, Effort::Fast].into_iter().cycle();
        bodies().iter().zip(efforts).map(|(body, effort)| pack(body, effort).expect("packed")).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
        let budget = Budget::new(Limits::SERVICE);
        let mut records = Records::new(bytes, &budget);
        let mut found = Vec::new();
        while let Some(body) = records.next().expect("within the budget") {
            found.push(body.to_vec());
        }
        (found, records.damaged())
    }

    #[test]
    fn the_beginning_of_a_body_is_read_alone() {
        let (log, budget) = (log(), Budget::new(Limits::SERVICE));
        let mut records = Records::new(&log, &budget);
        for body in bodies() {
            let beginning = records.next_beginning(10).expect("within the budget").expect("a record");
            assert_eq!(beginning, &body[..body.len().min(10)]);
        }
        assert_eq!(records.next_beginning(10).expect("within the budget"), None);
    }

    #[test]
    fn what_was_packed_is_read() {
        assert_eq!(read(&log()), (bodies(), 0));
    }

    #[test]
    fn a_log_cut_anywhere_has_the_records_before() {
        let log = log();
        let mut ends: Vec<usize> = Vec::new();
        for record in records() {
            ends.push(ends.last().copied().unwrap_or(0) + record.len());
        }
        for length in 0..log.len() {
            let whole = ends.iter().filter(|&&end| end <= length).count();
            assert_eq!(read(&log[..length]), (bodies()[..whole].to_vec(), 0), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_costs_one_record() {
        let log = log();
        for bit in 0..log.len() * 8 {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (found, _) = read(&flipped);
            assert_eq!(found.len(), bodies().len() - 1, "bit {bit}");
            assert!(found.iter().all(|body| bodies().contains(body)), "bit {bit}");
        }
    }

    #[test]
    fn zeros_of_a_power_failure_and_false_marks_are_skipped() {
        let mut log = log();
        log.extend([0; 5000]);
        log.extend(MARK.repeat(50));
        log.extend(pack(b"later", Effort::Fast).expect("packed"));
        let (found, damaged) = read(&log);
        assert_eq!((found.len(), damaged), (bodies().len() + 1, 1));
        assert_eq!(found.last().map(Vec::as_slice), Some(&b"later"[..]));
    }

    #[test]
    fn a_body_of_another_length_than_its_header_says_is_not_served() {
        let mut record = pack(&[1; 100], Effort::Small).expect("packed");
        for length in [99u32, 101, 0, u32::MAX] {
            record[4..8].copy_from_slice(&length.to_le_bytes());
            let sum = checksum(&record[..HEADER - 4]);
            record[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(read(&record).0, Vec::<Vec<u8>>::new(), "{length}");
        }
    }
}
