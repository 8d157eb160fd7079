//! What a reader gets: a stream whose beginning can be looked at, unpacked, under a cap.

use std::fs::File;
use std::io::{self, Read};

use flamelet_profile::{Error, ErrorKind, Result};

use crate::unpack::{damaged, packing, unpack};

/// How much of a file is looked at to recognise it.
const HEAD: usize = 64 << 10;
/// How often a file may be packed inside a packed file.
const MAX_LAYERS: usize = 4;
/// The longest line of a text file.
const MAX_LINE: usize = 64 << 20;

/// A file being read: unpacked, and its beginning known.
pub(crate) struct Input<'a> {
    head: Vec<u8>,
    /// How much of `head` has been handed out.
    taken: usize,
    head_is_all: bool,
    rest: Box<dyn Read + 'a>,
    left: u64,
    max_bytes: u64,
    is_packed: bool,
    /// The file itself, where it can be read here and there.
    file: Option<&'a File>,
}

impl<'a> Input<'a> {
    /// Opens `file` from its beginning on.
    pub(crate) fn of_file(file: &'a File, max_bytes: u64) -> Result<Self> {
        let mut input = Self::open(file, max_bytes)?;
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        input.file = (is_regular && !input.is_packed).then_some(file);
        Ok(input)
    }

    /// Opens `file`, which may unpack to `max_bytes` at most.
    pub(crate) fn open(file: impl Read + 'a, max_bytes: u64) -> Result<Self> {
        let mut rest: Box<dyn Read + 'a> = Box::new(file);
        for layer in 0..MAX_LAYERS {
            let head = read_head(&mut rest)?;
            let Some(packing) = packing(&head) else {
                return Ok(Self {
                    head_is_all: head.len() < HEAD,
                    head,
                    taken: 0,
                    rest,
                    left: max_bytes,
                    max_bytes,
                    is_packed: layer > 0,
                    file: None,
                });
            };
            rest = unpack(packing, io::Cursor::new(head).chain(rest))?;
        }
        Err(Error::new(ErrorKind::TooLarge, "the file is packed inside packed files too many times"))
    }

    /// The beginning of the file.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether [`Input::head`] is the whole file.
    pub(crate) fn head_is_all(&self) -> bool {
        self.head_is_all
    }

    /// Makes the head longer until it has a whole line more, which may be a long one.
    pub(crate) fn look_further(&mut self) -> Result<()> {
        let mut searched = self.head.len();
        while memchr::memchr(b'\n', &self.head[searched..]).is_none() && !self.head_is_all {
            searched = self.head.len();
            if searched as u64 > self.max_bytes.min(MAX_LINE as u64) {
                break;
            }
            let more = read_head(&mut self.rest)?;
            self.head_is_all = more.len() < HEAD;
            self.head.extend_from_slice(&more);
        }
        Ok(())
    }

    /// The file itself, where places in it are places in what is read.
    pub(crate) fn file(&self) -> Option<&'a File> {
        self.file
    }

    /// Lifts the cap on files that are not packed, for a reader whose memory does not grow with them.
    pub(crate) fn uncap(&mut self) {
        if !self.is_packed {
            self.left = u64::MAX;
        }
    }

    /// The whole file in memory.
    pub(crate) fn slurp(mut self) -> Result<Vec<u8>> {
        let mut all = Vec::with_capacity(self.head.len());
        self.read_to_end(&mut all).map_err(|error| self.explain(&error))?;
        Ok(all)
    }

    /// The file line by line.
    pub(crate) fn lines(self) -> Lines<'a> {
        Lines { input: self, buffer: Vec::new(), start: 0, end: 0, number: 0, ended: false }
    }

    /// What an I/O error means: the cap has its own.
    pub(crate) fn explain(&self, error: &io::Error) -> Error {
        if self.left == 0 { too_large(self.max_bytes) } else { damaged(error) }
    }
}

fn too_large(max_bytes: u64) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "unpacks to more than {} MiB; raise the cap with --max-memory if you trust the file",
            max_bytes >> 20
        ),
    )
}

fn read_head(from: &mut dyn Read) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    from.take(HEAD as u64).read_to_end(&mut head).map_err(|error| damaged(&error))?;
    Ok(head)
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let from_head = &self.head[self.taken..];
        let got = if from_head.is_empty() {
            self.rest.read(buffer)?
        } else {
            let count = from_head.len().min(buffer.len());
            buffer[..count].copy_from_slice(&from_head[..count]);
            self.taken += count;
            count
        };
        if got as u64 > self.left {
            self.left = 0;
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large(self.max_bytes).to_string()));
        }
        self.left -= got as u64;
        Ok(got)
    }
}

/// The lines of a file, each borrowed from one buffer.
pub(crate) struct Lines<'a> {
    input: Input<'a>,
    buffer: Vec<u8>,
    /// What was read and not returned yet lies here.
    start: usize,
    end: usize,
    number: u64,
    ended: bool,
}

impl Lines<'_> {
    const CHUNK: usize = 256 << 10;

    /// The next line without its end, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
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

    /// The number of the line that was returned last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// An error about the line that was returned last.
    pub(crate) fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("line {}: {what}", self.number))
    }

    /// Reads on. What was returned makes room when there is too little.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.len() - self.end < Self::CHUNK / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > MAX_LINE {
                return Err(Error::new(ErrorKind::TooLarge, format!("line {} is too long", self.number + 1)));
            }
            self.buffer.resize(self.buffer.len().max(self.end * 2).max(Self::CHUNK), 0);
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
        let mut lines = Input::open(Drip(text.as_bytes()), 1 << 20).unwrap().lines();
        let mut got = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            got.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(got, ["one", "", "two", &long, "last"]);
    }

    #[test]
    fn the_cap_is_an_error_and_not_an_end() {
        let text = vec![b'x'; 200_000];
        let input = Input::open(&text[..], 100_000).unwrap();
        assert_eq!(input.slurp().unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
