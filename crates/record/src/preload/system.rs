//! What the operating system says about files and this process.
#![allow(unsafe_code, reason = "std has no statvfs, getxattr and geteuid")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// This process' effective user and group.
pub(super) fn own_ids() -> (u32, u32) {
    // SAFETY: these cannot fail and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether this process may start others as any user.
pub(super) fn is_root() -> bool {
    own_ids().0 == 0
}

/// Whether programs of this folder's file system may not be run.
pub(super) fn is_noexec(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return true };
    // SAFETY: all fields are integers.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, and the kernel writes to the structure only.
    unsafe { libc::statvfs(name.as_ptr(), &raw mut about) == 0 && about.f_flag & libc::ST_NOEXEC != 0 }
}

/// Whether starting this file gives capabilities.
pub(super) fn has_capabilities(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are C strings; with no room given, only the length is asked for.
    unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
