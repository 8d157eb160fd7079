//! Opening files safely: no links, no pipes, no files of other users.
//!
//! The folder may be one that others can write to (volumes of containers often are), so nothing in it is trusted by
//! its name.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

#[cfg(unix)]
pub(crate) use unix::{check_length, is_same_file, lock, own_user, owner, unlock};

/// Creates a file for appending that only this user can read and write. Fails if anything exists there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open_by(path, OpenOptions::new().append(true).create_new(true))
}

/// Opens a regular file for reading whose owner is one of `owners`.
pub(crate) fn open(path: &Path, owners: &[u32]) -> io::Result<File> {
    only_of(owners, open_by(path, OpenOptions::new().read(true))?)
}

/// Opens a regular file for reading, of any user.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_by(path, OpenOptions::new().read(true))?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file");
    if file.metadata()?.is_file() { Ok(file) } else { Err(wrong()) }
}

/// Opens a file of this user to append to it.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    only_of(&[own_user()], open_by(path, OpenOptions::new().append(true))?)
}

/// Opens a file that only marks who writes, and creates it if it does not exist.
pub(crate) fn open_mark(path: &Path, owners: &[u32]) -> io::Result<File> {
    only_of(owners, open_by(path, OpenOptions::new().append(true).create(true))?)
}

fn open_by(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    unix::restrict(options);
    options.open(path)
}

/// Fails unless it is a regular file of one of these users.
fn only_of(owners: &[u32], file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if found.is_file() && owners.contains(&owner(&found)) {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "is not a regular file of the service's user"))
}

/// Writes all of `bytes`, or fails; then a part may have been written.
pub(crate) fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    if let Some(part) = faults::part_of(bytes) {
        file.write_all(part)?;
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all(bytes)
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "std has no geteuid and getrlimit, and flock only since Rust 1.89")]
mod unix {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    pub(super) fn restrict(options: &mut OpenOptions) {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        options.mode(0o600).custom_flags(flags);
    }

    /// Locks an open file until it is closed. Fails with `WouldBlock` if it is locked already.
    pub(crate) fn lock(file: &File) -> io::Result<()> {
        // SAFETY: takes a descriptor that is open, and an integer.
        let failed = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Unlocks a file that copies of the descriptor may keep open: a child that is between fork and exec has one.
    pub(crate) fn unlock(file: &File) {
        // SAFETY: takes a descriptor that is open, and an integer.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }

    /// Fails if the process may not have files of this length: the kernel would end it with SIGXFSZ.
    pub(crate) fn check_length(length: u64) -> io::Result<()> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes to the structure only.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        #[allow(clippy::useless_conversion, reason = "not on every system it has 64 bits")]
        let most = u64::from(limit.rlim_cur);
        if is_known && length > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    /// Returns whether `path` still names this open file.
    pub(crate) fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
        let (open, named) = (file.metadata()?, path.symlink_metadata()?);
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    }

    pub(crate) fn owner(found: &Metadata) -> u32 {
        found.uid()
    }

    pub(crate) fn own_user() -> u32 {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::geteuid() }
    }
}

#[cfg(not(unix))]
pub(crate) fn lock(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn unlock(_: &File) {}

#[cfg(not(unix))]
pub(crate) fn check_length(_: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn is_same_file(_: &File, path: &Path) -> io::Result<bool> {
    path.symlink_metadata().map(|_| true)
}

#[cfg(not(unix))]
pub(crate) fn owner(_: &std::fs::Metadata) -> u32 {
    0
}

#[cfg(not(unix))]
pub(crate) fn own_user() -> u32 {
    0
}

/// A disk that is full, for the tests.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;

    thread_local! {
        /// How many more bytes fit.
        pub(crate) static ROOM: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Returns the part that still fits, if not all of it does.
    pub(crate) fn part_of(bytes: &[u8]) -> Option<&[u8]> {
        let room = ROOM.get();
        ROOM.set(room.saturating_sub(bytes.len()));
        (room < bytes.len()).then(|| &bytes[..room])
    }
}
