//! Unpacks gzip, zstd, xz and bzip2 as a stream.

use std::io::{self, BufRead, BufReader, Read};

use flamelet_profile::budget::Loan;
use flamelet_profile::pprof::{zstd_memory, zstd_window};
use flamelet_profile::{Budget, Error, ErrorKind, Result};

/// The largest window that a compressed file may request.
const MAX_WINDOW: u64 = 128 << 20;
/// The memory of decoders that does not depend on a window.
const GZIP_MEMORY: usize = 128 << 10;
const BZIP2_MEMORY: usize = 8 << 20;
/// The longest header of a zstd frame.
const ZSTD_HEADER: usize = 18;

/// How a file is compressed, judging by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// Returns how a file that starts with `head` is compressed.
pub(crate) fn packing(head: &[u8]) -> Option<Packing> {
    match head {
        [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Some(Packing::Bzip2),
        _ => None,
    }
}

/// Returns the content of `packed`. The decoder's memory is charged as long as the decoder exists, and each byte it
/// produces is a step of work: compressed files may contain far more than their size.
pub(crate) fn unpack<'a>(
    packing: Packing,
    packed: impl Read + 'a,
    budget: &Budget,
) -> Result<Box<dyn Read + 'a>> {
    let mut loan = budget.lend(0)?;
    let unpacked: Box<dyn Read + 'a> = match packing {
        Packing::Gzip => {
            loan.add(GZIP_MEMORY)?;
            Box::new(flate2::read::MultiGzDecoder::new(packed))
        }
        Packing::Zstd => Box::new(ZstdFrames::new(packed, budget)),
        Packing::Xz => {
            // Each block may request its own window, so the largest possible one is charged.
            let limit = MAX_WINDOW.min(budget.room() / 4);
            loan.add(limit as usize)?;
            Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, (limit >> 10) as u32))
        }
        Packing::Bzip2 => {
            loan.add(BZIP2_MEMORY)?;
            Box::new(bzip2::read::MultiBzDecoder::new(packed))
        }
    };
    Ok(Box::new(Charged { unpacked, budget: budget.clone(), _loan: loan }))
}

/// Unpacked content whose bytes are charged as work.
struct Charged<R> {
    unpacked: R,
    budget: Budget,
    _loan: Loan,
}

impl<R: Read> Read for Charged<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.unpacked.read(buffer)?;
        self.budget.work(got).map_err(io::Error::other)?;
        Ok(got)
    }
}

type ZstdFrame<R> = ruzstd::decoding::StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>;

/// Reads all frames of a zstd file, which may contain several; the decoder reads only one.
struct ZstdFrames<R: Read> {
    frame: Option<(ZstdFrame<R>, Loan)>,
    packed: Option<BufReader<R>>,
    budget: Budget,
}

impl<R: Read> ZstdFrames<R> {
    fn new(packed: R, budget: &Budget) -> Self {
        Self { frame: None, packed: Some(BufReader::new(packed)), budget: budget.clone() }
    }

    /// Opens the next frame; returns false at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        let Some(mut packed) = self.packed.take() else { return Ok(false) };
        let head = packed.fill_buf()?;
        if head.is_empty() {
            return Ok(false);
        }
        // The header may be cut off at the end of the buffer.
        let window = match head.len() {
            0..ZSTD_HEADER => MAX_WINDOW.min(self.budget.room() / 4),
            _ => zstd_window(head).clamp(1 << 10, MAX_WINDOW),
        };
        let loan = self.budget.lend(zstd_memory(window)).map_err(io::Error::other)?;
        let frame = ZstdFrame::new_with_max_window_size(packed, window)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        self.frame = Some((frame, loan));
        Ok(true)
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some((frame, _)) = &mut self.frame {
                let got = frame.read(buffer)?;
                if got > 0 {
                    return Ok(got);
                }
                self.packed = self.frame.take().map(|(frame, _)| frame.into_inner());
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

/// Converts a decoder's error to one for the user who opened the file.
pub(crate) fn damaged(error: &io::Error) -> Error {
    let message = error.to_string();
    // The zstd decoder wraps the I/O error in its own.
    if error.kind() == io::ErrorKind::UnexpectedEof || message.contains("UnexpectedEof") {
        let message = "the file is cut off: its compressed data ends early; copy or fetch it again";
        return Error::new(ErrorKind::Truncated, message);
    }
    let kind = match error.kind() {
        io::ErrorKind::OutOfMemory => ErrorKind::TooLarge,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot read the file: {}", message.lines().next().unwrap_or_default()))
}
