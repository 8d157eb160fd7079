//! The bytes of a file: mapped, so that only the parts that are looked at are read.
#![allow(unsafe_code)] // Mapping a file is unsafe: the file may change under the map.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// Bytes that stay where they are while anyone looks at them. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<Storage>);

enum Storage {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::from(error).in_file(path))?;
        let metadata = file.metadata().map_err(|error| Error::from(error).in_file(path))?;
        if !metadata.is_file() {
            return Err(Error::new(ErrorKind::WrongFormat, "not a regular file").in_file(path));
        }
        if metadata.len() == 0 {
            return Err(Error::new(ErrorKind::WrongFormat, "the file is empty").in_file(path));
        }
        // SAFETY: the map is private and only read. The caller accepts, as the crate documentation says,
        // that a file which another program cuts short meanwhile ends the process with SIGBUS: linkers and
        // package managers replace binaries, they do not rewrite them in place.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| Error::from(error).in_file(path))?;
        Ok(Self(Arc::new(Storage::Mapped(map))))
    }

    /// Keeps bytes that were made in memory.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Storage::Owned(bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Storage::Mapped(map) => map,
            Storage::Owned(bytes) => bytes,
        }
    }
}
