//! An ELF file that is being read: the requested parts, in memory.
#![allow(unsafe_code)] // ImageParts stay where they are while the image lives, which the compiler cannot see.

mod part;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::ops::Range;

use object::ReadRef;
use rustc_hash::FxHashMap;

use crate::elf::file::Bytes;
use crate::{Error, ErrorKind, Result};
use part::ImagePart;

/// The most that headers may take.
const HEADERS: u64 = 1 << 20;
/// Strings are searched for in parts of this size. They are scattered over a table of many megabytes, so larger parts
/// would add up to all of it.
const STRINGS: u64 = 4 << 10;
const LONGEST_STRING: u64 = 128 << 10;

/// The headers, symbols and small sections of a file, each read on first use and kept until the image is dropped.
/// Debug information is too large for that: see `Section`.
pub(crate) struct Image<'a> {
    content: Content<'a>,
    parts: RefCell<ImageParts>,
    /// How many more bytes may be read.
    room: Cell<u64>,
}

/// By offset and size.
type ImageParts = FxHashMap<(u64, u64), ImagePart>;

enum Content<'a> {
    Bytes(Bytes),
    Borrowed(&'a [u8]),
}

impl Image<'static> {
    /// Creates an image that reads up to `room` bytes, and headers under any limit.
    pub(crate) fn new(bytes: Bytes, room: u64) -> Self {
        let room = Cell::new(room.max(HEADERS));
        Self { content: Content::Bytes(bytes), parts: RefCell::default(), room }
    }
}

impl<'a> Image<'a> {
    /// Creates an image of bytes that are already in memory.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { content: Content::Borrowed(bytes), parts: RefCell::default(), room: Cell::new(0) }
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Borrowed(bytes) => bytes.len() as u64,
        }
    }

    /// Returns a copy of the bytes of `range`.
    pub(crate) fn copy(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let short = || Error::new(ErrorKind::Corrupt, "the file is shorter than its headers say");
        let mut bytes = vec![0; self.length(&range).ok_or_else(short)?];
        self.fill(range.start, &mut bytes).ok_or_else(short)?;
        Ok(bytes)
    }

    /// Returns how long `range` is, if it is inside the file.
    fn length(&self, range: &Range<u64>) -> Option<usize> {
        let size = range.end.checked_sub(range.start).filter(|_| range.end <= self.size());
        size.and_then(|size| usize::try_from(size).ok())
    }

    /// Fills `into` with the bytes from `offset` on.
    pub(crate) fn fill(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        match &self.content {
            Content::Bytes(bytes) => bytes.read_at(offset, into).ok(),
            Content::Borrowed(bytes) => {
                into.copy_from_slice(bytes.get(usize::try_from(offset).ok()?..)?.get(..into.len())?);
                Some(())
            }
        }
    }

    /// Reads `range` from its start to its end.
    pub(crate) fn stream(&self, range: Range<u64>) -> impl Read + '_ {
        SectionStream { image: self, rest: range }
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Borrowed(bytes) => Some(bytes),
            Content::Bytes(Bytes::Memory(bytes)) => Some(bytes),
            Content::Bytes(Bytes::File(_)) => None,
        }
    }

    /// Returns the part of `size` bytes at `offset`, which is inside the file.
    fn part(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let mut parts = self.parts.borrow_mut();
        let part: *const [u8] = match parts.entry((offset, size)) {
            Entry::Occupied(known) => known.into_mut().bytes(),
            Entry::Vacant(unknown) => {
                let room = self.room.get().checked_sub(size)?;
                let length = self.length(&(offset..offset.checked_add(size)?))?;
                let part = ImagePart::filled(length, |into| self.fill(offset, into))?;
                self.room.set(room);
                unknown.insert(part).bytes()
            }
        };
        // SAFETY: the bytes have an allocation of their own, are never changed, and are dropped only with the image:
        // nothing is removed from `parts`, and moving the part does not move its bytes.
        Some(unsafe { &*part })
    }
}

struct SectionStream<'d> {
    image: &'d Image<'d>,
    rest: Range<u64>,
}

impl Read for SectionStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let end = self.rest.end.min(self.rest.start.saturating_add(into.len() as u64));
        let count = end.saturating_sub(self.rest.start) as usize;
        self.image.fill(self.rest.start, &mut into[..count]).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest.start += count as u64;
        Ok(count)
    }
}

impl<'d> ReadRef<'d> for &'d Image<'_> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.size())
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        match self.in_memory() {
            Some(bytes) => bytes.read_bytes_at(offset, size),
            None if offset.checked_add(size).is_some_and(|end| end <= self.size()) => {
                self.part(offset, size).ok_or(())
            }
            None => Err(()),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        if let Some(bytes) = self.in_memory() {
            return bytes.read_bytes_at_until(range, delimiter);
        }
        if range.start >= range.end || range.end > self.size() {
            return Err(());
        }
        let start = range.start - range.start % STRINGS;
        let part = self.part(start, STRINGS.min(self.size() - start)).ok_or(())?;
        let rest = &part[(range.start - start) as usize..];
        let is_delimiter = |&byte: &u8| byte == delimiter;
        if let Some(end) = rest.iter().take((range.end - range.start) as usize).position(is_delimiter) {
            return Ok(&rest[..end]);
        }
        // The string continues in the next part: few are much longer than that.
        let most = LONGEST_STRING.min(range.end - range.start);
        let mut length = STRINGS.min(most);
        loop {
            let whole = self.part(range.start, length).ok_or(())?;
            match whole.iter().position(is_delimiter) {
                Some(end) => return Ok(&whole[..end]),
                None if length == most => return Err(()),
                None => length = (length * 4).min(most),
            }
        }
    }
}
