//! Unpacks `PERF_RECORD_COMPRESSED`: pieces of one long zstd frame.

use std::io::Read;

use flamelet_profile::pprof::{zstd_memory, zstd_window};
use flamelet_profile::{Budget, Error, ErrorKind, Result};
use ruzstd::decoding::FrameDecoder;

/// An empty last block. perf does not end its frame, and the decoder holds back a window until the end.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// The size of a block's header: whether it is the last, its kind, and its size.
const BLOCK_HEADER: usize = 3;
/// The kind of block that consists of one repeated byte.
const REPEATED: u32 = 1;
const CHECKSUM: usize = 4;

/// The largest window that a frame may request.
const MAX_WINDOW: u64 = 128 << 20;

/// Unpacks pieces as they arrive.
pub(super) struct Inflate {
    decoder: FrameDecoder,
    /// A frame is being read.
    started: bool,
    /// Its last block was read.
    ended: bool,
    packed: Vec<u8>,
    room: Vec<u8>,
    budget: Budget,
    /// What the largest window and the largest unpacked piece are charged.
    window: usize,
    unpacked: usize,
}

impl Inflate {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            decoder: FrameDecoder::new(),
            started: false,
            ended: false,
            packed: Vec::new(),
            room: vec![0; 256 << 10],
            budget: budget.clone(),
            window: 0,
            unpacked: 0,
        }
    }

    /// Takes a piece and appends its unpacked content.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.packed.extend_from_slice(piece);
        let mut packed = std::mem::take(&mut self.packed);
        let mut rest = &packed[..];
        while self.start(&mut rest)? {
            let Some((block, after)) = self.next_block(rest) else { break };
            self.block(block, out)?;
            rest = after;
        }
        let used = packed.len() - rest.len();
        packed.drain(..used);
        self.packed = packed;
        Ok(())
    }

    /// Ends the frame and appends what was held back.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.started && !self.ended {
            self.push(&LAST_BLOCK, out)?;
        }
        Ok(())
    }

    /// Reads the beginning of a frame if none is open; each perf process writes its own. Returns whether a frame is
    /// open.
    fn start(&mut self, packed: &mut &[u8]) -> Result<bool> {
        if self.started && self.decoder.is_finished() {
            self.started = false;
        }
        if !self.started {
            if packed.len() < 4 {
                return Ok(false);
            }
            self.charge_window(packed)?;
            self.decoder.reset(packed).map_err(damaged)?;
            (self.started, self.ended) = (true, false);
        }
        Ok(true)
    }

    fn charge_window(&mut self, packed: &[u8]) -> Result<()> {
        let window = zstd_window(packed).clamp(1 << 10, MAX_WINDOW);
        self.decoder.set_max_window_size(window);
        let size = zstd_memory(window);
        self.budget.charge(size.saturating_sub(self.window))?;
        self.window = self.window.max(size);
        Ok(())
    }

    /// Splits off the next block of `packed`, if it is complete. The last block may be followed by a checksum.
    fn next_block<'a>(&mut self, packed: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.ended {
            return packed.split_at_checked(CHECKSUM);
        }
        let &[low, middle, high] = packed.first_chunk()?;
        let header = u32::from_le_bytes([low, middle, high, 0]);
        let size = if header >> 1 & 3 == REPEATED { 1 } else { (header >> 3) as usize };
        let block = packed.split_at_checked(BLOCK_HEADER + size)?;
        self.ended = header & 1 == 1;
        Some(block)
    }

    /// Unpacks one block, so that the limit is checked after every block.
    fn block(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (_, mut made) = self.decoder.decode_from_to(block, &mut self.room).map_err(damaged)?;
        while made > 0 {
            self.budget.work(made)?;
            let size = 2 * (out.len() + made);
            self.budget.charge(size.saturating_sub(self.unpacked))?;
            self.unpacked = self.unpacked.max(size);
            out.extend_from_slice(&self.room[..made]);
            made = self.decoder.read(&mut self.room).map_err(damaged)?;
        }
        Ok(())
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Error::new(ErrorKind::Corrupt, format!("a compressed record of perf.data is damaged: {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: u64) -> Budget {
        Budget::new(flamelet_profile::Limits::of_memory(bytes))
    }

    /// The header of a frame with a window of 1 KiB, without checksum and size.
    const FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    /// The same, with a checksum at the end.
    const CHECKED_FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 4, 0];

    /// Returns a block of `size` equal bytes.
    fn repeated(size: u32, is_last: bool) -> [u8; 4] {
        let [low, middle, high, _] = (size << 3 | REPEATED << 1 | u32::from(is_last)).to_le_bytes();
        [low, middle, high, b'x']
    }

    #[test]
    fn what_unpacks_to_more_than_allowed_is_not_unpacked() {
        let piece = [&FRAME[..], &repeated(1024, false).repeat(1000)].concat();
        let mut out = Vec::new();
        let error = Inflate::new(&budget(600_000)).push(&piece, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(out.len() < 200_000, "{} bytes were unpacked", out.len());
    }

    #[test]
    fn pieces_frames_and_checksums() {
        let frame = |size| [&FRAME[..], &repeated(size, true)].concat();
        let checked = [&CHECKED_FRAME[..], &repeated(30, true), &[1, 2, 3, 4]].concat();
        let whole = [frame(10), frame(20), checked, frame(40)].concat();
        // perf writes the beginning of a frame in one piece.
        for cut in [whole.len(), 10, 28, 30, 32] {
            let (mut inflate, mut out) = (Inflate::new(&budget(1 << 20)), Vec::new());
            inflate.push(&whole[..cut], &mut out).unwrap();
            inflate.push(&whole[cut..], &mut out).unwrap();
            inflate.finish(&mut out).unwrap();
            assert_eq!(out.len(), 100, "cut at {cut}");
        }
        // A missing checksum is no reason to wait.
        let (mut inflate, mut out) = (Inflate::new(&budget(1 << 20)), Vec::new());
        inflate.push(&whole[..32], &mut out).unwrap();
        inflate.finish(&mut out).unwrap();
    }
}
