//! The one way to open a file whose name comes from a profile, a binary or a folder's listing.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Opens a file whose name comes from elsewhere (a profile, a binary's link, a listing) for reading. Fails, without
/// waiting, if it is not a regular file but a pipe, a device or a folder. Empty files fail too, because some files of
/// `/proc`, which have no size, block when they are read.
///
/// The check comes before the opening and applies to the same file, whatever has its name by then.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_unless_special(path)?;
    check(&file)?;
    Ok(file)
}

/// Like [`open_regular()`], but fails unless the real path of the opened file is below one of `folders`, which are real
/// paths themselves. It makes no difference what is renamed meanwhile.
pub fn open_below(path: &Path, folders: &[PathBuf]) -> io::Result<File> {
    let file = open_regular(path)?;
    let is_inside = real_path(&file, path).is_some_and(|real| has_parent(&real, folders));
    let outside =
        || io::Error::new(io::ErrorKind::PermissionDenied, "is outside the folders that may be read");
    is_inside.then_some(file).ok_or_else(outside)
}

/// Returns whether the real path of a file is below one of `folders`, which are real paths themselves.
pub fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    path.canonicalize().is_ok_and(|real| has_parent(&real, folders))
}

fn has_parent(real: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| real.starts_with(folder))
}

/// Returns the path of an open file, however it was opened.
#[cfg(target_os = "linux")]
pub fn real_path(file: &File, _: &Path) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Returns the real path of an open file, by its name.
#[cfg(not(target_os = "linux"))]
pub fn real_path(_: &File, path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

fn check(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match metadata.is_file() {
        false => wrong("not a regular file"),
        true if metadata.len() == 0 => wrong("the file is empty"),
        true => Ok(()),
    }
}

/// Opening a device can have effects, so the path is resolved first without opening the file.
#[cfg(target_os = "linux")]
fn open_unless_special(path: &Path) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    let name = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    check(&name)?;
    match open_without_waiting(format!("/proc/self/fd/{}", name.as_raw_fd()).as_ref()) {
        // Without /proc, the caller's check of the opened file must be enough.
        Err(error) if error.kind() == io::ErrorKind::NotFound => open_without_waiting(path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_unless_special(path: &Path) -> io::Result<File> {
    open_without_waiting(path)
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}
