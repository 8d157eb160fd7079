//! Reads the file from front to back, block by block.

use std::fs::File;
use std::io::{self, Read};

use flamelet_profile::{Error, Result};
use flamelet_unwind::perf_event::{RecordHeader, SampleLayout};

use super::blocks::{BLOCK, RecordBlocks, RecordPlace};
use super::sparse::{NextRecord, Sparse};
use crate::input::Input;

/// A file being read.
pub(super) struct RecordSource<'a> {
    input: Input<'a>,
    /// The block being filled; bytes that were read but not taken yet are at `start..end`.
    block: u32,
    start: usize,
    end: usize,
    /// Reads records with stack dumps instead, if the file supports random access.
    sparse: Option<(Sparse<'a>, SampleLayout)>,
}

impl<'a> RecordSource<'a> {
    pub(super) fn new(input: Input<'a>, blocks: &mut RecordBlocks) -> Self {
        Self { input, block: blocks.take(), start: 0, end: 0, sparse: None }
    }

    /// Fills `buffer`; call it only before the first record.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(buffer)
    }

    /// Converts an error of [`RecordSource::fill`] to one for the user.
    pub(super) fn explain(&self, error: &io::Error) -> Error {
        self.input.explain(error)
    }

    /// Leaves the dumps of samples in the file from now on, if possible; records start at `at`, and samples have this
    /// layout.
    pub(super) fn leave_dumps(
        &mut self,
        at: u64,
        layout: SampleLayout,
        blocks: &mut RecordBlocks,
    ) -> Option<&'a File> {
        let file = self.input.file()?;
        self.sparse = Some((Sparse::new(file, at, blocks), layout));
        Some(file)
    }

    /// Returns the next record. Of a dump that is left in the file, about the first `part` bytes are returned.
    pub(super) fn record(&mut self, big: bool, part: usize, blocks: &mut RecordBlocks) -> Result<NextRecord> {
        if let Some((sparse, layout)) = &mut self.sparse {
            let next = sparse.record(big, layout, part, blocks);
            return next.map_err(|error| self.explain(&error));
        }
        if !self.need(RecordHeader::SIZE, blocks)? {
            return Ok(NextRecord::End);
        }
        let header = RecordHeader::parse(&blocks.bytes(self.block)[self.start..], big);
        let Some(header) = header.filter(|header| usize::from(header.size) >= RecordHeader::SIZE) else {
            return Ok(NextRecord::Senseless);
        };
        if !self.need(usize::from(header.size), blocks)? {
            return Ok(NextRecord::Cut);
        }
        let (start, length) = (self.start as u32, u32::from(header.size));
        self.start += usize::from(header.size);
        Ok(NextRecord::Record(header, RecordPlace { block: self.block, start, length }, None))
    }

    /// Reads until there are `count` bytes; returns false at the end of the file.
    fn need(&mut self, count: usize, blocks: &mut RecordBlocks) -> Result<bool> {
        while self.end - self.start < count {
            if self.start + count > BLOCK {
                self.next_block(blocks);
            }
            let room = &mut blocks.bytes_mut(self.block)[self.end..];
            match self.input.read(room) {
                Ok(0) => return Ok(false),
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(&error)),
            }
        }
        Ok(true)
    }

    /// Continues in another block, and moves the beginning of the record there.
    fn next_block(&mut self, blocks: &mut RecordBlocks) {
        let next = blocks.take();
        let length = self.end - self.start;
        let rest = RecordPlace { block: self.block, start: self.start as u32, length: length as u32 };
        blocks.move_to(rest, next);
        blocks.let_go(self.block);
        (self.block, self.start, self.end) = (next, 0, length);
    }

    /// Skips data that follows a record, and returns how much there was.
    pub(super) fn skip(&mut self, size: u64) -> Result<u64> {
        if let Some((sparse, _)) = &mut self.sparse {
            sparse.at = sparse.at.saturating_add(size);
            return Ok(size);
        }
        let here = ((self.end - self.start) as u64).min(size);
        self.start += here as usize;
        let copied = io::copy(&mut (&mut self.input).take(size - here), &mut io::sink());
        Ok(here + copied.map_err(|error| self.explain(&error))?)
    }

    /// Returns what is left, up to `max` bytes, and whether it could be read.
    pub(super) fn rest(&mut self, max: u64, blocks: &RecordBlocks) -> (Vec<u8>, bool) {
        if let Some((sparse, _)) = &self.sparse {
            return sparse.rest(max).map_or((Vec::new(), false), |bytes| (bytes, true));
        }
        let mut bytes = blocks.bytes(self.block)[self.start..self.end].to_vec();
        self.start = self.end;
        let read = (&mut self.input).take(max).read_to_end(&mut bytes);
        (bytes, read.is_ok())
    }
}
