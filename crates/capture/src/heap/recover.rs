//! Reading the ledger of a process that is gone.

use super::ledger::image::LedgerImage;
use super::options;
use super::snapshot::Snapshot;
use flamelet_profile::{Error, ErrorKind, Profile, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

impl Snapshot {
    /// Reads the file that [`Options::file`](super::Options::file) or
    /// [`Options::emergency_file`](super::Options::emergency_file) named in a process that may be gone. The file is
    /// not trusted: what is invalid is left out, and counted in the profile's comments.
    pub fn read(path: &Path) -> Result<Self> {
        let mut bytes = Vec::new();
        let longest = options::longest_file();
        File::open(path)?.take(longest + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > longest {
            return Err(Error::new(ErrorKind::TooLarge, "too long for a flamelet heap ledger"));
        }
        Self::of_bytes(&bytes)
    }

    /// Like [`Snapshot::read`], for the bytes of such a file.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self::of_image(LedgerImage::read(bytes)?))
    }
}

/// Returns the heap profile in a file that survived its process: [`Snapshot::read`] and [`Snapshot::heap`].
pub fn recover(path: &Path) -> Result<Profile> {
    Ok(Snapshot::read(path)?.heap())
}
