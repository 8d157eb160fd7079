//! Reads a recording with stack dumps without reading all of the dumps: a stack needs only a few KB of the 16 or 64
//! KB per sample.
//!
//! The end of a dump, the next sample and the first part of its dump are adjacent in the file, so one read covers
//! them.

use std::fs::File;
use std::io;

use flamelet_unwind::perf_event::{ByteReader, RecordHeader, SampleLayout, record_kind};

use super::blocks::{BLOCK, RecordBlocks, RecordPlace};

/// How much is read at once in addition to the first part of a dump: the end of the previous dump, small records, and
/// a sample up to its dump, which takes at most half of this.
const FRONT: usize = 1 << 10;
/// Records up to this size are read whole.
const SMALL: usize = 4 << 10;

/// A stack dump that was left in the file, except for its first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DumpPlace {
    /// Where in the file it starts, and how many of its bytes are the stack.
    pub(super) at: u64,
    pub(super) used: u32,
}

/// The result of reading a record.
pub(super) enum NextRecord {
    Record(RecordHeader, RecordPlace, Option<DumpPlace>),
    /// The file ends before a record.
    End,
    /// The file ends inside a record.
    Cut,
    /// The record's size is smaller than its header.
    Senseless,
}

/// Fills `buffer` from a place in a file, and returns how many bytes the file had.
pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match std::os::unix::fs::FileExt::read_at(file, &mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A file read by random access.
pub(super) struct Sparse<'a> {
    file: &'a File,
    /// Where the next record starts.
    pub(super) at: u64,
    /// The bytes read last, and where in the file they start.
    window: RecordPlace,
    window_at: u64,
    /// The block before the window's, which may still contain the record being read.
    before: Option<u32>,
}

impl<'a> Sparse<'a> {
    pub(super) fn new(file: &'a File, at: u64, blocks: &mut RecordBlocks) -> Self {
        let window = RecordPlace { block: blocks.take(), start: 0, length: 0 };
        Self { file, at, window, window_at: at, before: None }
    }

    /// Returns the next record. A sample with a dump ends after about the first `part` bytes of the dump.
    pub(super) fn record(
        &mut self,
        big: bool,
        layout: &SampleLayout,
        part: usize,
        blocks: &mut RecordBlocks,
    ) -> io::Result<NextRecord> {
        // When much is held back, dumps are left out.
        let ahead = FRONT + if blocks.is_half_full() { 0 } else { part };
        let Some(place) = self.look(self.at, RecordHeader::SIZE, ahead, blocks)? else {
            return Ok(NextRecord::End);
        };
        let header = RecordHeader::parse(blocks.record(place), big);
        let Some(header) = header.filter(|header| usize::from(header.size) >= RecordHeader::SIZE) else {
            return Ok(NextRecord::Senseless);
        };
        let size = usize::from(header.size);
        if header.kind == record_kind::SAMPLE
            && size > SMALL
            && let Some((place, dump)) = self.without_dump(size, big, layout, ahead, blocks)?
        {
            self.at += size as u64;
            return Ok(NextRecord::Record(header, place, Some(dump)));
        }
        let Some(place) = self.look(self.at, size, ahead, blocks)? else { return Ok(NextRecord::Cut) };
        self.at += size as u64;
        Ok(NextRecord::Record(header, place, None))
    }

    /// Returns the beginning of a sample and of its dump, if the dump starts early enough.
    fn without_dump(
        &mut self,
        size: usize,
        big: bool,
        layout: &SampleLayout,
        ahead: usize,
        blocks: &mut RecordBlocks,
    ) -> io::Result<Option<(RecordPlace, DumpPlace)>> {
        let wanted = size.min(ahead - FRONT / 2);
        let Some(head) = self.look(self.at, wanted, ahead, blocks)? else { return Ok(None) };
        let body = ByteReader::new(&blocks.record(head)[RecordHeader::SIZE..], big);
        let Some((start, length)) = layout.stack_place(body) else { return Ok(None) };
        let start = RecordHeader::SIZE + start;
        // The dump is followed only by how much of it was used.
        if start + length + 8 > size {
            return Ok(None);
        }
        let at = self.at + start as u64;
        let Some(used) = self.look(at + length as u64, 8, ahead, blocks)? else { return Ok(None) };
        let used = ByteReader::new(blocks.record(used), big).u64().unwrap_or(0);
        let used = u32::try_from(used).unwrap_or(u32::MAX).min(length as u32);
        let place = RecordPlace { length: head.length.min(start as u32 + used), ..head };
        Ok(Some((place, DumpPlace { at, used })))
    }

    /// Returns the place of `count` bytes of the file. If they have not been read yet, it reads them, or `ahead`
    /// bytes if that is more. The previous result stays valid for one more call.
    fn look(
        &mut self,
        at: u64,
        count: usize,
        ahead: usize,
        blocks: &mut RecordBlocks,
    ) -> io::Result<Option<RecordPlace>> {
        let inside = at.checked_sub(self.window_at).and_then(|start| usize::try_from(start).ok());
        if let Some(start) = inside.filter(|start| start + count <= self.window.length as usize) {
            let start = self.window.start + start as u32;
            return Ok(Some(RecordPlace { start, length: count as u32, ..self.window }));
        }
        let room = count.max(ahead);
        let mut start = (self.window.start + self.window.length) as usize;
        if start + room > BLOCK {
            self.before.replace(self.window.block).into_iter().for_each(|block| blocks.let_go(block));
            (self.window.block, start) = (blocks.take(), 0);
        }
        let got = read_at(self.file, &mut blocks.bytes_mut(self.window.block)[start..start + room], at)?;
        self.window = RecordPlace { start: start as u32, length: got as u32, ..self.window };
        self.window_at = at;
        Ok((got >= count).then_some(RecordPlace { length: count as u32, ..self.window }))
    }

    /// Returns what is left, up to `max` bytes.
    pub(super) fn rest(&self, max: u64) -> io::Result<Vec<u8>> {
        let left = self.file.metadata()?.len().saturating_sub(self.at).min(max);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        let got = read_at(self.file, &mut bytes, self.at)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}
