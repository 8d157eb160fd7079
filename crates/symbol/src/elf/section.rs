//! Sections with debug information: sometimes gigabytes, of which a lookup reads a few places. They are read in
//! blocks, which are dropped when there are too many of them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use gimli::{Error, Reader, ReaderOffsetId, Result};
use rustc_hash::FxHashMap;

use crate::elf::Endian;
use crate::elf::image::Image;

/// How much is read at a time.
const BLOCK: usize = 32 << 10;

/// The longest string that is read: in a hostile file, the search for its end would take forever.
const LONGEST_STRING: usize = 1 << 20;

/// The blocks of all sections of one job.
pub(crate) struct SectionBlocks {
    held: RefCell<Held>,
    most: usize,
    sections: Cell<u32>,
    /// The buffer that blocks are read into before they are shared.
    scratch: RefCell<Vec<u8>>,
}

/// By the number of the section and the block's offset in it.
type Held = FxHashMap<(u32, usize), Rc<SectionBlock>>;

/// Some bytes of a section.
struct SectionBlock {
    /// Their offset in the section.
    start: usize,
    bytes: Box<[u8]>,
}

impl SectionBlocks {
    /// Holds at most about `bytes`, and at least one block.
    pub(crate) fn new(bytes: u64) -> Self {
        let most = usize::try_from(bytes / BLOCK as u64).unwrap_or(usize::MAX).max(1);
        Self { held: RefCell::default(), most, sections: Cell::new(0), scratch: RefCell::default() }
    }

    /// Returns the block with this key; `read` fills in its `size` bytes.
    fn block(
        &self,
        key: (u32, usize),
        size: usize,
        read: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Option<Rc<SectionBlock>> {
        if let Some(block) = self.held.borrow().get(&key) {
            return Some(block.clone());
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(BLOCK, 0);
        read(&mut scratch[..size])?;
        let block = Rc::new(SectionBlock { start: key.1, bytes: scratch[..size].into() });
        let mut held = self.held.borrow_mut();
        // Readers keep their current block; all others can be read again.
        if held.len() >= self.most {
            held.clear();
        }
        held.insert(key, block.clone());
        Some(block)
    }
}

/// A section whose blocks are read on demand.
pub(crate) struct Section<'d> {
    content: Content<'d>,
    size: usize,
}

enum Content<'d> {
    Memory(Rc<SectionBlock>),
    Part { image: &'d Image<'d>, start: u64, blocks: &'d SectionBlocks, number: u32 },
}

impl<'d> Section<'d> {
    /// Creates a section for one that is missing.
    pub(crate) fn empty() -> Self {
        Self::in_memory(Vec::new())
    }

    /// Creates a section that had to be decompressed.
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Self {
        let size = bytes.len();
        Self { size, content: Content::Memory(Rc::new(SectionBlock { start: 0, bytes: bytes.into() })) }
    }

    /// Creates a section from the `range` of a file.
    pub(crate) fn part(image: &'d Image<'d>, range: Range<u64>, blocks: &'d SectionBlocks) -> Self {
        let number = blocks.sections.get();
        blocks.sections.set(number + 1);
        let size = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
        Self { size, content: Content::Part { image, start: range.start, blocks, number } }
    }

    /// Returns a reader of the whole section. The endianness is the file's.
    pub(crate) fn reader(&'d self, endian: Endian) -> Slice<'d> {
        let block = match &self.content {
            Content::Memory(all) => all.clone(),
            Content::Part { .. } => Rc::new(SectionBlock { start: 0, bytes: Box::default() }),
        };
        Slice { section: self, block, at: 0, end: self.size, endian }
    }

    /// Returns the block that contains the byte at `at`, which is inside the section.
    fn block(&self, at: usize) -> Result<Rc<SectionBlock>> {
        match &self.content {
            Content::Memory(all) => Ok(all.clone()),
            Content::Part { image, start, blocks, number } => {
                let first = at - at % BLOCK;
                let size = BLOCK.min(self.size - first);
                let read = |into: &mut [u8]| image.fill(start.checked_add(first as u64)?, into);
                blocks.block((*number, first), size, read).ok_or(Error::Io)
            }
        }
    }
}

/// Reads a part of a [`Section`], block by block.
#[derive(Clone)]
pub(crate) struct Slice<'d> {
    section: &'d Section<'d>,
    /// The block that was read last; the needed bytes may be in another one.
    block: Rc<SectionBlock>,
    at: usize,
    end: usize,
    endian: Endian,
}

impl<'d> Slice<'d> {
    /// Returns a part of what is left.
    pub(crate) fn range(&self, range: Range<usize>) -> Result<Self> {
        let mut part = self.clone();
        part.truncate(range.end)?;
        part.skip(range.start)?;
        Ok(part)
    }

    fn enter_block(&mut self) -> Result<()> {
        self.block = self.section.block(self.at)?;
        Ok(())
    }

    /// Returns what is left of the current block, up to the reader's own end.
    fn rest_of_block(&self) -> &[u8] {
        let at = self.at.wrapping_sub(self.block.start);
        let rest = self.block.bytes.get(at..).unwrap_or_default();
        &rest[..rest.len().min(self.end - self.at)]
    }

    #[cold]
    fn read_across(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            if self.rest_of_block().is_empty() {
                self.enter_block()?;
            }
            let rest = self.rest_of_block();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            self.at += count;
            into = &mut into[count..];
        }
        Ok(())
    }

    fn eof(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }
}

impl fmt::Debug for Slice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({:?})", self.at..self.end)
    }
}

impl Reader for Slice<'_> {
    type Endian = Endian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> Endian {
        self.endian
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.at
    }

    #[inline]
    fn empty(&mut self) {
        self.end = self.at;
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        if len > self.len() {
            return Err(self.eof());
        }
        self.end = self.at + len;
        Ok(())
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.at - base.at
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at as u64)
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?;
        (self.at..=self.end).contains(&at).then(|| at - self.at)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut reader = self.clone();
        reader.end = reader.end.min(reader.at.saturating_add(LONGEST_STRING));
        while reader.at < reader.end {
            if reader.rest_of_block().is_empty() {
                reader.enter_block()?;
            }
            let rest = reader.rest_of_block();
            if let Some(found) = rest.iter().position(|&other| other == byte) {
                return Ok(reader.at - self.at + found);
            }
            reader.at += rest.len();
        }
        Err(self.eof())
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        if len > self.len() {
            return Err(self.eof());
        }
        self.at += len;
        Ok(())
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        let mut first = self.clone();
        first.truncate(len)?;
        self.at += len;
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let rest = self.rest_of_block();
        if rest.len() == self.len() {
            return Ok(Cow::Borrowed(rest));
        }
        let mut bytes = vec![0; self.len()];
        self.clone().read_across(&mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => Ok(std::str::from_utf8(bytes).map_err(|_| Error::BadUtf8)?.into()),
            Cow::Owned(bytes) => Ok(String::from_utf8(bytes).map_err(|_| Error::BadUtf8)?.into()),
        }
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        })
    }

    #[inline]
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        if into.len() > self.len() {
            return Err(self.eof());
        }
        let at = self.at.wrapping_sub(self.block.start);
        match at.checked_add(into.len()).and_then(|end| self.block.bytes.get(at..end)) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                self.at += into.len();
                Ok(())
            }
            None => self.read_across(into),
        }
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        if let Some(&byte) = self.block.bytes.get(self.at.wrapping_sub(self.block.start))
            && self.at < self.end
        {
            self.at += 1;
            return Ok(byte);
        }
        let mut byte = [0];
        self.read_slice(&mut byte)?;
        Ok(byte[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::file::Bytes;

    /// Reads three blocks and a bit of counted bytes, holding `held` bytes of blocks.
    fn check(held: u64) {
        let content: Vec<u8> = (0..3 * BLOCK + 100).map(|at| (at % 251) as u8).collect();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("section");
        std::fs::write(&path, &content).expect("written");
        let image = Image::new(Bytes::open(&path).expect("there"), 0);
        let blocks = SectionBlocks::new(held);
        let section = Section::part(&image, 10..content.len() as u64, &blocks);
        let content = &content[10..];
        let reader = section.reader(Endian::default());
        assert_eq!(&*reader.to_slice().expect("readable"), content);
        let mut one_by_one = reader.clone();
        assert!(content.iter().all(|&byte| one_by_one.read_u8() == Ok(byte)));
        assert!(one_by_one.read_u8().is_err() && one_by_one.is_empty());
        for at in [0, BLOCK - 3, BLOCK, 2 * BLOCK - 1, content.len() - 4] {
            let mut rest = reader.clone();
            rest.skip(at).expect("inside");
            let expected = u32::from_le_bytes(content[at..at + 4].try_into().expect("four"));
            assert_eq!(rest.read_u32(), Ok(expected), "at {at}");
            assert_eq!((rest.offset_from(&reader), rest.len()), (at + 4, content.len() - at - 4));
        }
        let byte = content[2 * BLOCK];
        let mut rest = reader.range(BLOCK + 7..content.len()).expect("inside");
        let expected = content[BLOCK + 7..].iter().position(|&other| other == byte);
        assert_eq!(rest.find(byte).ok(), expected);
        assert!(rest.find(255).is_err());
        let part = rest.split(2 * BLOCK - 7).expect("inside");
        assert_eq!(&*part.to_slice().expect("readable"), &content[BLOCK + 7..3 * BLOCK]);
        assert!(rest.skip(rest.len() + 1).is_err() && rest.truncate(rest.len() + 1).is_err());
        // A block that was read and dropped may be gone from the file.
        std::fs::File::options().write(true).open(&path).expect("ours").set_len(20).expect("cut");
        let outcome = reader.to_slice();
        assert_eq!(outcome.is_ok(), held > 4 * BLOCK as u64, "only what is held can still be read");
    }

    #[test]
    fn blocks_that_are_held_and_blocks_that_are_read_again_say_the_same() {
        check(u64::MAX);
        check(0);
    }
}
