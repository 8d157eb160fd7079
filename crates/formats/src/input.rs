//! The input of a reader: an unpacked stream whose beginning can be inspected, within a budget.
//!
//! Reading after the budget has run out returns its error, so no reader continues for long.

use std::fs::File;
use std::io::{self, Read};

use flamelet_profile::budget::{Budget, Loan};
use flamelet_profile::{Error, ErrorKind, Result};

use crate::unpack::{damaged, packing, unpack};
use crate::utf16::{self, Utf16};

/// How much of a file is looked at to recognise it.
const HEAD: usize = 64 << 10;
/// How many layers of compression a file may have.
const MAX_LAYERS: usize = 4;
/// The longest line of a text file.
const MAX_LINE: usize = 64 << 20;
/// How much is read at a time.
const CHUNK: usize = 256 << 10;
/// What each byte of a long line costs: readers split lines, and each word of a line becomes an id, a place, or both.
const LINE_PARTS: usize = 8;

/// A file being read: unpacked, with its beginning in memory.
pub(crate) struct Input<'a> {
    head: Vec<u8>,
    /// How much of `head` has been returned.
    taken: usize,
    head_is_all: bool,
    rest: Box<dyn Read + 'a>,
    budget: Budget,
    is_packed: bool,
    /// The file itself, if it supports random access.
    file: Option<&'a File>,
}

impl<'a> Input<'a> {
    /// Opens `file` at its beginning.
    pub(crate) fn of_file(file: &'a File, budget: &Budget) -> Result<Self> {
        let mut input = Self::open(file, budget)?;
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        input.file = (is_regular && !input.is_packed).then_some(file);
        Ok(input)
    }

    /// Opens `file`, to be read within `budget`.
    pub(crate) fn open(file: impl Read + 'a, budget: &Budget) -> Result<Self> {
        let mut rest: Box<dyn Read + 'a> = Box::new(file);
        for layer in 0..MAX_LAYERS {
            let head = read_head(&mut rest, budget)?;
            if let Some(is_big) = utf16::byte_order(&head) {
                rest = Box::new(Utf16::new(io::Cursor::new(head).chain(rest), is_big));
                continue;
            }
            let Some(packing) = packing(&head) else {
                return Ok(Self {
                    head_is_all: head.len() < HEAD,
                    head,
                    taken: 0,
                    rest,
                    budget: budget.clone(),
                    is_packed: layer > 0,
                    file: None,
                });
            };
            rest = unpack(packing, io::Cursor::new(head).chain(rest), budget)?;
        }
        Err(Error::new(ErrorKind::TooLarge, "the file is compressed too many times"))
    }

    /// Returns the beginning of the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns whether [`Input::head`] is the whole file.
    pub(crate) fn head_is_all(&self) -> bool {
        self.head_is_all
    }

    /// Extends the head until it has one more whole line, which may be a long one.
    pub(crate) fn look_further(&mut self) -> Result<()> {
        let mut searched = self.head.len();
        while memchr::memchr(b'\n', &self.head[searched..]).is_none() && !self.head_is_all {
            searched = self.head.len();
            if searched > MAX_LINE {
                break;
            }
            self.budget.charge(HEAD)?;
            let more = read_head(&mut self.rest, &self.budget)?;
            self.head_is_all = more.len() < HEAD;
            self.head.extend_from_slice(&more);
        }
        Ok(())
    }

    /// Returns the file itself, if offsets in it are offsets in the input.
    pub(crate) fn file(&self) -> Option<&'a File> {
        self.file
    }

    /// Returns the budget for reading the file.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Reads the whole file into memory.
    pub(crate) fn slurp(mut self) -> Result<Slurped> {
        let mut slurped = Slurped { bytes: Vec::new(), loan: self.budget.lend(0)? };
        loop {
            slurped.loan.add(CHUNK)?;
            let got = (&mut self).take(CHUNK as u64).read_to_end(&mut slurped.bytes);
            if got.map_err(|error| self.explain(&error))? == 0 {
                return Ok(slurped);
            }
        }
    }

    /// Calls `each` with the whole file, piece by piece.
    pub(crate) fn each_piece(mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each(&self.head[self.taken..])?;
        self.taken = self.head.len();
        if self.head_is_all {
            return self.budget.check();
        }
        let _loan = self.budget.lend(CHUNK)?;
        let mut piece = vec![0; CHUNK];
        loop {
            match self.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(got) => each(&piece[..got])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(&error)),
            }
        }
    }

    pub(crate) fn lines(self) -> Lines<'a> {
        Lines { input: self, buffer: Vec::new(), start: 0, end: 0, number: 0, ended: false }
    }

    /// Calls `each` with every line, without its ending. What it finds wrong becomes an error with the number of the line.
    pub(crate) fn each_line(self, mut each: impl FnMut(&[u8]) -> LineResult) -> Result<()> {
        let mut lines = self.lines();
        while let Some(line) = lines.next()? {
            if let Err(what) = each(line) {
                return Err(lines.corrupt(what));
            }
        }
        Ok(())
    }

    /// Converts an I/O error; when the budget has run out, that is the error.
    pub(crate) fn explain(&self, error: &io::Error) -> Error {
        self.budget.check().err().unwrap_or_else(|| damaged(error))
    }
}

/// What a reader says about a line: what is wrong with it, if anything.
pub(crate) type LineResult = std::result::Result<(), &'static str>;

/// A file in memory, which is charged as long as it exists.
pub(crate) struct Slurped {
    bytes: Vec<u8>,
    loan: Loan,
}

impl std::ops::Deref for Slurped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

fn read_head(from: &mut dyn Read, budget: &Budget) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = from.take(HEAD as u64).read_to_end(&mut head);
    read.map_err(|error| budget.check().err().unwrap_or_else(|| damaged(&error)))?;
    Ok(head)
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.budget.check().map_err(io::Error::other)?;
        let from_head = &self.head[self.taken..];
        if from_head.is_empty() {
            return self.rest.read(buffer);
        }
        let count = from_head.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from_head[..count]);
        self.taken += count;
        Ok(count)
    }
}

/// The lines of a file, each borrowed from one buffer.
pub(crate) struct Lines<'a> {
    input: Input<'a>,
    buffer: Vec<u8>,
    /// The start of what was read but not returned yet.
    start: usize,
    end: usize,
    number: u64,
    ended: bool,
}

impl Lines<'_> {
    /// Returns the next line without its line ending, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        self.input.budget.check()?;
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let (start, end) = (self.start, self.start + searched + at);
                self.start = end + 1;
                self.number += 1;
                return Ok(Some(trim_return(&self.buffer[start..end])));
            }
            if self.ended {
                let start = std::mem::replace(&mut self.start, self.end);
                self.number += 1;
                return Ok((start < self.end).then(|| trim_return(&self.buffer[start..self.end])));
            }
            searched = self.end - self.start;
            self.fill()?;
        }
    }

    /// Returns the number of the last line returned, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns an error about the last line returned.
    pub(crate) fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("line {}: {what}", self.number))
    }

    /// Reads more. When there is too little room, lines already returned are discarded.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.len() - self.end < CHUNK / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > MAX_LINE {
                return Err(Error::new(ErrorKind::TooLarge, format!("line {} is too long", self.number + 1)));
            }
            let size = self.buffer.len().max(self.end * 2).max(CHUNK);
            self.input.budget.charge((size - self.buffer.len()) * LINE_PARTS)?;
            self.buffer.resize(size, 0);
        }
        let got = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let got = got.map_err(|error| self.input.explain(&error))?;
        self.end += got;
        self.ended = got == 0;
        Ok(())
    }
}

fn trim_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns whether `head` contains bytes that do not occur in text.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    head.iter().any(|&byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b | 0x0c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_chunks() {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(3).min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let long = "x".repeat(100_000);
        let text = format!("one\r\n\ntwo\n{long}\nlast");
        let mut lines = Input::open(Drip(text.as_bytes()), &budget(16 << 20)).unwrap().lines();
        let mut got = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            got.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(got, ["one", "", "two", &long, "last"]);
    }

    fn budget(bytes: u64) -> Budget {
        Budget::new(flamelet_profile::Limits::of_memory(bytes))
    }

    #[test]
    fn the_end_of_the_budget_is_an_error_and_not_an_end() {
        let text = vec![b'x'; 200_000];
        let input = Input::open(&text[..], &budget(100_000)).unwrap();
        assert_eq!(input.slurp().err().unwrap().kind(), ErrorKind::OutOfMemory);
        let mut lines = Input::open(&b"one\ntwo\n"[..], &budget(4 << 20)).unwrap().lines();
        lines.next().unwrap();
        lines.input.budget.has_room(8 << 20);
        assert_eq!(lines.next().unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}
