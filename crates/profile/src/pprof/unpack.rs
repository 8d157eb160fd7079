//! Unpacks gzip and zstd within a budget, so that a small file cannot fill the memory.

use std::io::Read;

use crate::{Budget, Error, ErrorKind, Result};

/// How the bytes of a file are compressed, judging by the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// Returns how `bytes` are compressed.
pub fn packing(bytes: &[u8]) -> Packing {
    match bytes {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => Packing::None,
    }
}

/// The size of the pieces of an unpacked file.
const PIECE: usize = 64 << 10;

/// Calls `each` with the bytes inside a compressed file, piece by piece.
pub(super) fn unpack(
    bytes: &[u8],
    packing: Packing,
    budget: &Budget,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match packing {
        Packing::None => each(bytes),
        Packing::Gzip => {
            let size = gzip_size_hint(bytes).clamp(1 << 10, PIECE);
            let decoder = flate2::read::MultiGzDecoder::new(bytes);
            each_piece(decoder, "gzip", vec![0; size], budget, &mut each)
        }
        Packing::Zstd => unpack_zstd(bytes, budget, &mut each),
    }
}

#[cfg(feature = "zstd")]
fn unpack_zstd(bytes: &[u8], budget: &Budget, each: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let damaged = |error| Error::new(ErrorKind::Corrupt, format!("the zstd data is damaged: {error}"));
    let mut rest = bytes;
    // As with gzip, appended frames belong to the content.
    while !rest.is_empty() {
        let window = zstd_window(rest);
        let _window = budget.lend(zstd_memory(window))?;
        let frame =
            ruzstd::decoding::StreamingDecoder::new_with_max_window_size(&mut rest, window.max(1 << 10));
        each_piece(frame.map_err(damaged)?, "zstd", vec![0; PIECE], budget, each)?;
    }
    Ok(())
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: &[u8], _: &Budget, _: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    Err(Error::new(
        ErrorKind::WrongFormat,
        "the profile is compressed with zstd, which this build cannot read",
    ))
}

/// Returns how far back a zstd frame refers, judging by its first bytes; 0 where they make no sense.
pub fn zstd_window(frame: &[u8]) -> u64 {
    let Some(&[_, _, _, _, descriptor, window, ..]) = frame.first_chunk::<6>() else { return 0 };
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let base = 1u64 << (10 + (window >> 3));
        return base + base / 8 * u64::from(window & 7);
    }
    // The whole content is the window. Its size follows the dictionary's number.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let field = frame.get(5 + dictionary..5 + dictionary + size).unwrap_or_default();
    let content = field.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    content.saturating_add(if size == 2 { 256 } else { 0 })
}

/// Returns what unpacking a zstd frame takes: a ring of twice its window, and some tables.
pub fn zstd_memory(window: u64) -> usize {
    usize::try_from(window.saturating_mul(2).saturating_add(512 << 10)).unwrap_or(usize::MAX)
}

/// Returns the size of the content modulo 4 GiB, with which gzip ends. It may be wrong, so it is only a hint.
fn gzip_size_hint(bytes: &[u8]) -> usize {
    bytes.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last) as usize)
}

/// Calls `each` with everything that `unpacked` returns. Each byte is a step of work: compressed files may contain far
/// more than their size, and not all of it is kept.
fn each_piece(
    mut unpacked: impl Read,
    name: &str,
    mut piece: Vec<u8>,
    budget: &Budget,
    each: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let _loan = budget.lend(piece.len())?;
    loop {
        match unpacked.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(got) => {
                budget.work(got)?;
                each(&piece[..got])?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(&error, name)),
        }
    }
}

fn damaged(error: &std::io::Error, name: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Truncated, format!("the {name} data ends too early: the file is truncated"))
        }
        _ => Error::new(ErrorKind::Corrupt, format!("the {name} data is damaged: {error}")),
    }
}
