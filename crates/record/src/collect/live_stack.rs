//! The stack of a thread, read from the living process: what a dump is too short for.

use crate::sys::machine;
use crate::sys::memory::Memory;

/// Bytes that are read at a time at most, and how many at least, where there are so many: behind a huge frame there
/// is seldom more left of a stack, and each page more takes time.
const PIECE: usize = 8 << 10;
const LITTLE: u64 = 1 << 10;
const PAGE: u64 = 4 << 10;
/// Pieces of one stack that are kept at a time.
const MOST_PIECES: usize = 8;
/// What lies below the first address that was asked for: saved registers of the same frame.
const BELOW: u64 = 128;
/// Processes whose memory is kept open.
const MOST_OPEN: usize = 32;

/// Reads a stack piece by piece. Whether the thread can be trusted to have stood still is asked once, at the end: the
/// clock costs more than what is read in vain now and then.
pub(crate) struct LiveStack {
    pid: u32,
    /// When the thread was seen to stand there.
    seen_at: u64,
    /// For how long after that what is read is believed.
    patience: u64,
    is_used: bool,
    used: usize,
    places: [(u64, usize); MOST_PIECES],
    pieces: Box<[[u8; PIECE]; MOST_PIECES]>,
    /// The one that was used last comes last.
    open: Vec<Memory>,
}

impl LiveStack {
    /// Believes what is read within `patience` nanoseconds.
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

    /// Another stack: of a thread of `pid` that stood there at `seen_at`.
    pub(crate) fn begin(&mut self, pid: u32, seen_at: u64) {
        (self.pid, self.seen_at, self.is_used, self.used) = (pid, seen_at, false, 0);
    }

    /// Whether everything was read in time.
    pub(crate) fn is_right(&self) -> bool {
        !self.is_used || machine::monotonic_nanos().saturating_sub(self.seen_at) < self.patience
    }

    /// The word at `address`.
    pub(crate) fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
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
        // The word may stand at the very beginning of what can be read.
        let starts = [address.saturating_sub(BELOW) & !63, address];
        let (start, length) = starts.into_iter().find_map(|start| {
            let end = (start + LITTLE).next_multiple_of(PAGE).min(start + PIECE as u64);
            let length = self.read_piece(piece, start, (end - start) as usize)?;
            // Less is read at the end of the stack.
            (start + length as u64 >= address + 8).then_some((start, length))
        })?;
        self.places[piece] = (start, length);
        self.used += 1;
        Some(piece)
    }

    fn read_piece(&mut self, piece: usize, start: u64, length: usize) -> Option<usize> {
        let is_new = self.select()?;
        let mut read = |memory: Option<&Memory>| memory?.read(start, &mut self.pieces[piece][..length]).ok();
        match read(self.open.last()) {
            // The process may run another program since: then this is the memory of the one before.
            Some(0) | None if !is_new => {
                self.open.pop();
                self.open.push(Memory::open(self.pid).ok()?);
                read(self.open.last())
            }
            length => length,
        }
    }

    /// Puts the memory of the process last. Returns whether it was opened just now.
    fn select(&mut self) -> Option<bool> {
        if self.open.last().is_some_and(|memory| memory.pid() == self.pid) {
            return Some(false);
        }
        let known = self.open.iter().position(|memory| memory.pid() == self.pid);
        let memory = match known {
            Some(known) => self.open.remove(known),
            None => Memory::open(self.pid).ok()?,
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
        assert_eq!(live.read(8), None);
        assert!(live.is_right());
        let mut late = LiveStack::new(1);
        late.begin(std::process::id(), 0);
        assert_eq!(late.read(start), Some(0));
        assert!(!late.is_right());
    }
}
