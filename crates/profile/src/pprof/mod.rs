//! pprof, flamelet's native format: reading (plain, gzip or zstd) and writing.
//!
//! [`read`] and [`write()`] work on files as they are on disk, compressed or not; [`decode`] and [`encode`] work on
//! the bare protobuf message, and [`StreamDecoder`] on one that comes in pieces. Reading takes no more than its
//! [`Limits`].

mod read;
mod runs;
mod samples;
mod schema;
mod stream;
mod tables;
mod unpack;
mod write;

pub use crate::budget::Limits;
pub use read::{decode_within, looks_like_pprof};
pub use stream::StreamDecoder;
pub use unpack::{Packing, packing, zstd_memory, zstd_window};
pub use write::{encode, write, write_gzip};

use crate::{Budget, Profile, Result};

/// Reads a profile from the bytes of a file: bare protobuf, gzip or zstd.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Profile> {
    read_within(bytes, &Budget::new(*limits))
}

/// Like [`read`], but charges its memory to `budget`; the caller accounts for `bytes`.
pub fn read_within(bytes: &[u8], budget: &Budget) -> Result<Profile> {
    match packing(bytes) {
        Packing::None => decode_within(bytes, budget),
        packing => {
            let mut decoder = StreamDecoder::new(budget)?;
            unpack::unpack(bytes, packing, budget, |piece| decoder.add(piece))?;
            decoder.finish()
        }
    }
}

/// Decodes a bare pprof message.
pub fn decode(message: &[u8], limits: &Limits) -> Result<Profile> {
    decode_within(message, &Budget::new(*limits))
}
