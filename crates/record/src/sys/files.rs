//! System calls about files and this process' users.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns this process' effective user and group.
pub(crate) fn own_ids() -> (u32, u32) {
    // SAFETY: these cannot fail and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Returns whether this process may start others as any user.
pub(crate) fn is_root() -> bool {
    own_ids().0 == 0
}

/// Returns whether programs on this folder's file system may not be run.
pub(crate) fn is_noexec(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return true };
    // SAFETY: all fields are integers.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, and the kernel writes to the structure only.
    unsafe { libc::statvfs(name.as_ptr(), &raw mut about) == 0 && about.f_flag & libc::ST_NOEXEC != 0 }
}

/// Returns whether starting this file grants capabilities.
pub(crate) fn has_capabilities(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are C strings; with no room given, only the length is returned.
    unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Returns a name that cannot be guessed.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    // SAFETY: writes at most as many bytes as the array has. This few bytes arrive all at once or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Locks an open file for this process. Fails if another process has locked it.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    // SAFETY: takes a descriptor that is open, and an integer.
    let failed = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Creates a named pipe.
#[cfg(test)]
pub(crate) fn make_pipe(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name is a C string.
    let failed = unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
