//! Reads a thread's stack from the live process, where the dump is too short.

use crate::sys::machine;
use crate::sys::memory::ProcessMemory;

/// The most and the fewest bytes to read at a time, if there are that many. Behind a huge frame there is seldom much
/// left of a stack, and each further page takes time.
const PIECE: usize = 8 << 10;
const LITTLE: u64 = 1 << 10;
const PAGE: u64 = 4 << 10;
/// The most pieces of one stack that are kept at a time.
const MOST_PIECES: usize = 8;
/// How far below the first requested address to read: registers saved by the same frame are there.
const BELOW: u64 = 128;
/// The most processes whose memory is kept open.
const MOST_OPEN: usize = 32;

/// Reads a stack piece by piece. Whether the thread can be trusted to have stood still is checked once, at the end:
/// reading the clock costs more than an occasional useless read.
pub(crate) struct LiveStack {
    pid: u32,
    /// When the thread was seen to be stopped there.
    seen_at: u64,
    /// For how long after that the contents are trusted.
    patience: u64,
    is_used: bool,
    used: usize,
    places: [(u64, usize); MOST_PIECES],
    pieces: Box<[[u8; PIECE]; MOST_PIECES]>,
    /// Ordered by use, the last used at the end.
    open: Vec<ProcessMemory>,
}

impl LiveStack {
    /// Trusts what is read within `patience` nanoseconds.
    pub(crate) fn new(patience: u64) -> Self {
        Self {
            pid: 0,
            seen_at: 0,
            patience,
            is_used: false,
            used: 0,
            places: [(0, 0); MOST_PIECES],
            pieces: Box::new([[0; PIECE]; MOST_PIECES]),
            open: Vec::new(),
        }
    }

    /// Begins another stack, of a thread of `pid` that stood still at `seen_at`.
    pub(crate) fn begin(&mut self, pid: u32, seen_at: u64) {
        (self.pid, self.seen_at, self.is_used, self.used) = (pid, seen_at, false, 0);
    }

    /// Returns whether anything was read.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns whether everything was read in time.
    pub(crate) fn is_right(&self) -> bool {
        !self.is_used || machine::monotonic_nanos().saturating_sub(self.seen_at) < self.patience
    }

    /// Returns the word at `address`.
    pub(crate) fn read(&mut self, address: u64) -> Option<u64> {
        // A register may have any value, but no process has memory in the upper half.
        if !address.is_multiple_of(8) || address >> 63 != 0 {
            return None;
        }
        let holds = |&(start, length): &(u64, usize)| {
            address.checked_sub(start).is_some_and(|offset| offset + 8 <= length as u64)
        };
        let piece = match self.places[..self.used].iter().position(holds) {
            Some(piece) => piece,
            None => self.fetch(address)?,
        };
        crate::events::ring_records::u64_at(&self.pieces[piece], (address - self.places[piece].0) as usize)
    }

    fn fetch(&mut self, address: u64) -> Option<usize> {
        if self.used == MOST_PIECES {
            return None;
        }
        self.is_used = true;
        let piece = self.used;
        // The word may be at the very start of the readable memory.
        let starts = [address.saturating_sub(BELOW) & !63, address];
        let (start, length) = starts.into_iter().find_map(|start| {
            let end = (start + LITTLE).next_multiple_of(PAGE).min(start + PIECE as u64);
            let length = self.read_piece(piece, start, (end - start) as usize)?;
            // At the end of the stack, less is read.
            (start + length as u64 >= address + 8).then_some((start, length))
        })?;
        self.places[piece] = (start, length);
        self.used += 1;
        Some(piece)
    }

    fn read_piece(&mut self, piece: usize, start: u64, length: usize) -> Option<usize> {
        let is_new = self.select()?;
        let mut read =
            |memory: Option<&ProcessMemory>| memory?.read(start, &mut self.pieces[piece][..length]).ok();
        match read(self.open.last()) {
            // The process may have executed another program since; this is then the memory of the old one.
            Some(0) | None if !is_new => {
                self.open.pop();
                self.open.push(ProcessMemory::open(self.pid).ok()?);
                read(self.open.last())
            }
            length => length,
        }
    }

    /// Moves the memory of the process to the end. Returns whether it was opened just now.
    fn select(&mut self) -> Option<bool> {
        if self.open.last().is_some_and(|memory| memory.pid() == self.pid) {
            return Some(false);
        }
        let known = self.open.iter().position(|memory| memory.pid() == self.pid);
        let memory = match known {
            Some(known) => self.open.remove(known),
            None => ProcessMemory::open(self.pid).ok()?,
        };
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
        }
        self.open.push(memory);
        Some(known.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_this_very_thread_within_its_patience() {
        let words: Vec<u64> = (0..4096).collect();
        let start = words.as_ptr() as u64;
        let mut live = LiveStack::new(u64::MAX);
        live.begin(std::process::id(), 0);
        for at in [0, 1, 900, 4095] {
            assert_eq!(live.read(start + at * 8), Some(at));
        }
        assert_eq!(live.read(start + 4), None);
        assert_eq!([8, u64::MAX - 7, 1 << 63].map(|address| live.read(address)), [None; 3]);
        assert!(live.is_right());
        let mut late = LiveStack::new(1);
        late.begin(std::process::id(), 0);
        assert_eq!(late.read(start), Some(0));
        assert!(!late.is_right());
    }
}
