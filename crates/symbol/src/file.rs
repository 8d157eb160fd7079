//! The bytes of a file: mapped, so that only the parts that are looked at are read.
#![allow(unsafe_code)] // Mapping a file is unsafe: the file may change under the map. And so is advising about it.

use std::cell::Cell;
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

    /// Gives the pages that were read back; they come again from the kernel's cache when they are needed.
    fn release(&self) {
        #[cfg(unix)]
        if let Storage::Mapped(map) = &*self.0 {
            // SAFETY: the map is of a file and never written to, so what is dropped here is read again from
            // that file; slices of it stay valid.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

/// Keeps the resident part of mapped files small while they are read, and gives all of it back at the end.
pub(crate) struct Resident {
    files: Vec<Bytes>,
    most: u64,
    /// The page faults of this thread when pages were last given back.
    faults: Cell<u64>,
}

/// So many bytes become resident at most when a page is touched whose neighbours are cached.
const FAULT_AROUND: u64 = 64 << 10;

impl Resident {
    pub(crate) fn new(files: Vec<Bytes>, most: u64) -> Self {
        let faults = Cell::new(if most == u64::MAX { 0 } else { page_faults() });
        Self { files, most, faults }
    }

    /// Gives pages back if there may be too many.
    pub(crate) fn stay_small(&self) {
        if self.most == u64::MAX || self.files.is_empty() {
            return;
        }
        let faults = page_faults();
        if faults.saturating_sub(self.faults.get()).saturating_mul(FAULT_AROUND) >= self.most {
            self.files.iter().for_each(Bytes::release);
            self.faults.set(faults);
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        if self.most != u64::MAX {
            self.files.iter().for_each(Bytes::release);
        }
    }
}

/// The page faults of this thread so far, where the system counts them.
fn page_faults() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: zeroes are a valid `rusage`, which the kernel fills in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        u64::try_from(usage.ru_minflt.saturating_add(usage.ru_majflt)).unwrap_or(0)
    }
    #[cfg(not(target_os = "linux"))]
    0
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
