//! A file that stays open and is written in the middle of allocations: only with system calls, which return an error
//! where a mapping would fault.
//!
//! Some programs close all descriptors, and open files of their own under the same numbers. So every write first
//! checks that the file is still the one that was opened; and its number is a high one, which the kernel gives only
//! to a process that has that many files open.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::descriptor::{status, with_high_number};

/// No file, or one that this process opened.
pub(super) struct KeptFile {
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl KeptFile {
    pub(super) const fn none() -> Self {
        Self { descriptor: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Keeps `file` instead of the one kept so far, to which no thread may be writing.
    pub(super) fn keep(&self, file: File) -> io::Result<()> {
        let metadata = file.metadata()?;
        self.device.store(metadata.dev(), Ordering::Relaxed);
        self.inode.store(metadata.ino(), Ordering::Relaxed);
        let old = self.descriptor.swap(with_high_number(file).into_raw_fd(), Ordering::AcqRel);
        if old >= 0 {
            // SAFETY: the descriptor was ours, and nothing takes it from here any more.
            drop(unsafe { OwnedFd::from_raw_fd(old) });
        }
        Ok(())
    }

    /// In the child of a fork: forgets the file, which is the parent's. Async-signal-safe.
    pub(super) fn forget(&self) {
        self.descriptor.store(-1, Ordering::Release);
    }

    /// Returns the file, if there is one and it is still ours.
    pub(super) fn open(&self) -> Option<OpenFile> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        if descriptor < 0 {
            return None;
        }
        let stat = status(descriptor);
        let found = (stat.st_dev, stat.st_ino);
        let is_ours = found == (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        is_ours.then_some(OpenFile { descriptor, length: u64::try_from(stat.st_size).unwrap_or(0) })
    }

    /// Returns whether the file at `path` is this one.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.open().is_some()
            && std::fs::metadata(path).is_ok_and(|found| {
                found.dev() == self.device.load(Ordering::Relaxed)
                    && found.ino() == self.inode.load(Ordering::Relaxed)
            })
    }
}

/// A file as it was a moment ago.
#[derive(Clone, Copy)]
pub(super) struct OpenFile {
    descriptor: libc::c_int,
    /// Its length in bytes.
    pub(super) length: u64,
}

impl OpenFile {
    /// A file that is open, and not kept yet.
    pub(super) fn of(file: &File) -> Self {
        Self { descriptor: file.as_raw_fd(), length: 0 }
    }

    /// Writes words `start..end` of `words` to their place in the file. Does not allocate.
    ///
    /// The kernel reads the words while it holds the file exclusively, so when several threads write the same words,
    /// the last one writes what all of them left there.
    pub(super) fn write(self, words: &'static [AtomicU64], start: usize, end: usize) -> io::Result<()> {
        let words = &words[start..end];
        let (mut done, bytes) = (0, words.len() * 8);
        while done < bytes {
            let offset = (start * 8 + done) as libc::off_t;
            // SAFETY: the words stay mapped forever; if other threads change them meanwhile, that affects the
            // kernel's read, not ours, and each word is whole or newer.
            let wrote = unsafe {
                let from = words.as_ptr().cast::<u8>().add(done);
                libc::pwrite(self.descriptor, from.cast(), bytes - done, offset)
            };
            match usize::try_from(wrote) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes it `bytes` long, with all its blocks on disk.
    pub(super) fn reserve(self, bytes: u64) -> io::Result<()> {
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if bytes > longest_allowed() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // SAFETY: a system call on a descriptor that is open.
        match unsafe { libc::posix_fallocate(self.descriptor, 0, length) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Returns the limit of this process, beyond which the kernel not only refuses to write but sends a signal that kills
/// it.
fn longest_allowed() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel fills in a valid struct.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Runs `work`, which makes system calls, and leaves `errno` as the program has it.
pub(super) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: this thread's own `errno`.
    let before = unsafe { *libc::__errno_location() };
    let result = work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
    result
}
