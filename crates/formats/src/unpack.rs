//! Unpacking gzip, zstd, xz and bzip2 as a stream.

use std::io::{self, BufRead, BufReader, Read};

use flamelet_profile::{Error, ErrorKind, Result};

/// The largest window that a packed file may ask for.
const MAX_WINDOW: u64 = 128 << 20;

/// How bytes are packed, as their first bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// How a file that starts with `head` is packed.
pub(crate) fn packing(head: &[u8]) -> Option<Packing> {
    match head {
        [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Some(Packing::Bzip2),
        _ => None,
    }
}

/// The content of `packed`.
pub(crate) fn unpack<'a>(packing: Packing, packed: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    Ok(match packing {
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        Packing::Zstd => Box::new(ZstdFrames::new(packed)),
        Packing::Xz => {
            let limit = (MAX_WINDOW >> 10) as u32;
            Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, limit))
        }
        Packing::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
    })
}

type ZstdFrame<R> = ruzstd::decoding::StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>;

/// Zstd files may hold several frames one after another; the decoder reads one.
struct ZstdFrames<R: Read> {
    frame: Option<ZstdFrame<R>>,
    packed: Option<BufReader<R>>,
}

impl<R: Read> ZstdFrames<R> {
    fn new(packed: R) -> Self {
        Self { frame: None, packed: Some(BufReader::new(packed)) }
    }

    /// Opens the next frame; false at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        let Some(mut packed) = self.packed.take() else { return Ok(false) };
        if packed.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let frame = ZstdFrame::new_with_max_window_size(packed, MAX_WINDOW)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        self.frame = Some(frame);
        Ok(true)
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                let got = frame.read(buffer)?;
                if got > 0 {
                    return Ok(got);
                }
                self.packed = self.frame.take().map(ZstdFrame::into_inner);
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

/// What a decoder's complaint means for the person who opened the file.
pub(crate) fn damaged(error: &io::Error) -> Error {
    let message = error.to_string();
    // The one for zstd wraps it up in its own.
    if error.kind() == io::ErrorKind::UnexpectedEof || message.contains("UnexpectedEof") {
        let message = "the file is cut off: its packed data ends early; copy or fetch it again";
        return Error::new(ErrorKind::Truncated, message);
    }
    let kind = match error.kind() {
        io::ErrorKind::OutOfMemory => ErrorKind::TooLarge,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot read the file: {}", message.lines().next().unwrap_or_default()))
}
