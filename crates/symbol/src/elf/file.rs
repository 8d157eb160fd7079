//! Files with symbols. They are read, never mapped: accessing a page past the end of a file that was truncated meanwhile
//! would kill the process with SIGBUS.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use flamelet_profile::open_regular;

use crate::{Error, ErrorKind, Result};

/// What an ELF file is read from. Cloning shares it.
#[derive(Clone)]
pub(crate) enum Bytes {
    /// An open file.
    File(Arc<OpenFile>),
    /// Bytes that were made in memory.
    Memory(Arc<[u8]>),
}

/// A file, and its size and time when it was opened.
pub(crate) struct OpenFile {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
}

impl Bytes {
    /// Opens the file at `path` without reading its content yet.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let in_file = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                Error::new(ErrorKind::WrongFormat, error.to_string()).in_file(path)
            }
            _ => Error::from(error).in_file(path),
        };
        let file = open_regular(path).map_err(in_file)?;
        let metadata = file.metadata().map_err(in_file)?;
        Ok(Self::File(Arc::new(OpenFile { file, size: metadata.len(), modified: metadata.modified().ok() })))
    }

    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes.into())
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File(open) => open.size,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns whether the file was written to since it was opened: it may be another build now.
    pub(crate) fn has_changed(&self) -> bool {
        let Self::File(open) = self else { return false };
        let now = open.file.metadata().map(|now| (now.len(), now.modified().ok()));
        now.is_ok_and(|now| now != (open.size, open.modified))
    }

    /// Fills `into` with the bytes from `offset` on. Fails if the file has become too short for that.
    pub(crate) fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(open) => read_exact_at(&open.file, offset, into),
            Self::Memory(bytes) => {
                let part =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
                part.map(|part| into.copy_from_slice(part)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                into = &mut into[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}
