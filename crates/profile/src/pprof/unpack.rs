//! Unpacking gzip and zstd under a cap, so that a small file cannot fill the memory.

use std::io::Read;

use crate::{Error, ErrorKind, Result};

/// How much memory a file may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that a packed file may unpack to.
    pub max_unpacked: u64,
    /// The most bytes that the tables of one decoded profile may take.
    pub max_memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_unpacked: 2 << 30, max_memory: 4 << 30 }
    }
}

impl Limits {
    /// Limits that admit profiles of `gibibytes` of memory.
    pub fn of_gibibytes(gibibytes: u64) -> Self {
        let bytes = gibibytes.saturating_mul(1 << 30);
        Self { max_unpacked: bytes, max_memory: bytes.saturating_mul(2) }
    }
}

/// How the bytes of a file are packed, as their first bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// How `bytes` are packed.
pub fn packing(bytes: &[u8]) -> Packing {
    match bytes {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => Packing::None,
    }
}

/// The bytes inside a gzip or zstd file; bytes that are not packed are copied.
pub fn unpack(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    match packing(bytes) {
        Packing::None => Ok(bytes.to_vec()),
        Packing::Gzip => {
            read_capped(flate2::read::MultiGzDecoder::new(bytes), gzip_size_hint(bytes), limits, "gzip")
        }
        Packing::Zstd => unpack_zstd(bytes, limits),
    }
}

#[cfg(feature = "zstd")]
fn unpack_zstd(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let damaged = |error| Error::new(ErrorKind::Corrupt, format!("the zstd data is damaged: {error}"));
    let (mut rest, mut unpacked) = (bytes, Vec::new());
    // As with gzip, what was appended belongs to it.
    while !rest.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(damaged)?;
        let left = limits.max_unpacked.saturating_sub(unpacked.len() as u64);
        let frame = read_capped(frame, 0, &Limits { max_unpacked: left, ..*limits }, "zstd")?;
        unpacked.extend_from_slice(&frame);
    }
    Ok(unpacked)
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: &[u8], _: &Limits) -> Result<Vec<u8>> {
    Err(Error::new(ErrorKind::WrongFormat, "the profile is packed with zstd, which this build cannot read"))
}

/// gzip ends with the size of its content modulo 4 GiB. It may lie, so it is only a hint, bounded by what
/// deflate can reach.
fn gzip_size_hint(bytes: &[u8]) -> usize {
    let said = bytes.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last) as usize);
    said.min(bytes.len().saturating_mul(1032)).min(256 << 20)
}

fn read_capped(reader: impl Read, hint: usize, limits: &Limits, name: &str) -> Result<Vec<u8>> {
    let mut unpacked = Vec::with_capacity(hint);
    let mut reader = reader.take(limits.max_unpacked.saturating_add(1));
    reader.read_to_end(&mut unpacked).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Truncated, format!("the {name} data ends too early: the file is truncated"))
        }
        _ => Error::new(ErrorKind::Corrupt, format!("the {name} data is damaged: {error}")),
    })?;
    if unpacked.len() as u64 > limits.max_unpacked {
        let cap = limits.max_unpacked >> 20;
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("unpacks to more than {cap} MiB; raise the cap with --max-memory if you trust the file"),
        ));
    }
    Ok(unpacked)
}
