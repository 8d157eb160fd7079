//! Reading a recording with stack dumps without reading the dumps: of 16 or 64 KB a sample, a stack needs a few.

use std::fs::File;
use std::io;
use std::ops::Range;

use super::attr::Attr;
use super::blocks::{Blocks, Place};
use super::fields::Fields;
use super::records::{RecordHeader, kind};
use super::sample::Sample;
use super::source::Next;

/// How much is read at once: the end of a dump, and the next sample up to its dump.
const WINDOW: usize = 1 << 10;
/// Records up to this size are read whole.
const SMALL: usize = 4 << 10;

/// A stack dump that was left in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DumpPlace {
    /// Where in the file it starts, and how many bytes of it are the stack.
    pub(super) at: u64,
    pub(super) used: u32,
}

/// Fills `buffer` from a place in a file, and returns how much of it the file had.
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

/// A file that is read here and there.
pub(super) struct Sparse<'a> {
    pub(super) file: &'a File,
    /// Where the next record starts.
    pub(super) at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Sparse<'a> {
    pub(super) fn new(file: &'a File, at: u64) -> Self {
        Self { file, at, window: Vec::new(), window_at: 0 }
    }

    /// The next record, with or without its dump.
    pub(super) fn record(&mut self, big: bool, attr: &Attr, blocks: &mut Blocks) -> io::Result<Next> {
        let Some(range) = self.look(self.at, RecordHeader::SIZE)? else { return Ok(Next::End) };
        let header = RecordHeader::parse(&self.window[range], big);
        let Some(header) = header.filter(|header| usize::from(header.size) >= RecordHeader::SIZE) else {
            return Ok(Next::Senseless);
        };
        let (at, size) = (self.at, usize::from(header.size));
        if header.kind == kind::SAMPLE
            && size > SMALL
            && let Some((place, dump)) = self.without_dump(at, size, big, attr, blocks)?
        {
            self.at += size as u64;
            return Ok(Next::Record(header, place, Some(dump)));
        }
        let Some(range) = self.look(at, size)? else { return Ok(Next::Cut) };
        self.at += size as u64;
        Ok(Next::Record(header, blocks.store(&self.window[range]), None))
    }

    /// The beginning of a sample, when its dump starts soon.
    fn without_dump(
        &mut self,
        at: u64,
        size: usize,
        big: bool,
        attr: &Attr,
        blocks: &mut Blocks,
    ) -> io::Result<Option<(Place, DumpPlace)>> {
        let Some(head) = self.look(at, WINDOW / 2)? else { return Ok(None) };
        let body = Fields::new(&self.window[head.start + RecordHeader::SIZE..head.end], big);
        let Some((start, length)) = Sample::dump_place(attr, body) else { return Ok(None) };
        let start = RecordHeader::SIZE + start;
        // Behind the dump there is only how much of it was used.
        if start + length + 8 > size {
            return Ok(None);
        }
        let place = blocks.store(&self.window[head.start..head.start + start]);
        let Some(used) = self.look(at + (start + length) as u64, 8)? else { return Ok(None) };
        let used = Fields::new(&self.window[used], big).u64().unwrap_or(0);
        let used = u32::try_from(used).unwrap_or(u32::MAX).min(length as u32);
        Ok(Some((place, DumpPlace { at: at + start as u64, used })))
    }

    /// Where in the window `count` bytes of the file lie; it is read anew where they are not in it.
    fn look(&mut self, at: u64, count: usize) -> io::Result<Option<Range<usize>>> {
        let inside = at.checked_sub(self.window_at).and_then(|start| usize::try_from(start).ok());
        if let Some(start) = inside.filter(|start| start + count <= self.window.len()) {
            return Ok(Some(start..start + count));
        }
        self.window.resize(count.max(WINDOW), 0);
        let got = read_at(self.file, &mut self.window, at)?;
        self.window.truncate(got);
        self.window_at = at;
        Ok((got >= count).then_some(0..count))
    }

    /// What is left, up to `max` bytes.
    pub(super) fn rest(&self, max: u64) -> io::Result<Vec<u8>> {
        let left = self.file.metadata()?.len().saturating_sub(self.at).min(max);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        let got = read_at(self.file, &mut bytes, self.at)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}
