//! pprof, flamelet's native file: reading (plain, gzip or zstd) and writing.
//!
//! Two doors: [`read`] and [`write()`] work on files as they lie on disk, packed or not; [`decode`] and
//! [`encode`] on the bare protobuf message.

mod read;
mod schema;
mod unpack;
mod wire;
mod write;

pub use read::{decode, looks_like_pprof};
pub use unpack::{Limits, Packing, packing, unpack};
pub use write::{encode, write, write_gzip};

use crate::{Profile, Result};

/// Reads a profile from the bytes of a file: bare protobuf, gzip or zstd.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Profile> {
    match packing(bytes) {
        Packing::None => decode(bytes, limits),
        _ => decode(&unpack(bytes, limits)?, limits),
    }
}
