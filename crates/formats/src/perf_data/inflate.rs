//! Unpacking `PERF_RECORD_COMPRESSED`: pieces of one long zstd frame.

use flamelet_profile::{Error, ErrorKind, Result};
use ruzstd::decoding::FrameDecoder;

/// An empty last block: perf does not end its frame, and the decoder holds back a window until it ends.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Unpacks pieces as they come.
pub(super) struct Inflate {
    decoder: FrameDecoder,
    started: bool,
    packed: Vec<u8>,
    room: Vec<u8>,
}

impl Inflate {
    pub(super) fn new() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(128 << 20);
        Self { decoder, started: false, packed: Vec::new(), room: vec![0; 256 << 10] }
    }

    /// Takes a piece and appends what it unpacks to.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.packed.extend_from_slice(piece);
        if !self.started {
            let mut source = &self.packed[..];
            self.decoder.reset(&mut source).map_err(damaged)?;
            let used = self.packed.len() - source.len();
            self.packed.drain(..used);
            self.started = true;
        }
        self.drain(out)
    }

    /// Ends the frame and appends what was held back.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.started && !self.decoder.is_finished() {
            self.packed.extend_from_slice(&LAST_BLOCK);
            self.drain(out)?;
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut Vec<u8>) -> Result<()> {
        loop {
            let (used, made) = self.decoder.decode_from_to(&self.packed, &mut self.room).map_err(damaged)?;
            self.packed.drain(..used.min(self.packed.len()));
            out.extend_from_slice(&self.room[..made]);
            if used == 0 && made == 0 {
                break;
            }
        }
        // Each process of perf writes a frame of its own.
        if self.decoder.is_finished() && self.packed.len() >= 4 {
            self.started = false;
            return self.push(&[], out);
        }
        Ok(())
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Error::new(ErrorKind::Corrupt, format!("a compressed record of perf.data is damaged: {first}"))
}
