//! Descriptors that stay open in a program that does not know of them. Some programs close all descriptors, and open files of their
//! own under the same numbers.

#![allow(unsafe_code, reason = "asks the kernel about descriptors that may not be ours any more")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Below the usual limit of 1024 descriptors.
const HIGH_NUMBER: libc::c_int = 960;

/// Returns the same file under a high number, if one is free: the kernel gives it only to a process that has that many files
/// open.
pub(crate) fn with_high_number(file: File) -> OwnedFd {
    // SAFETY: makes a new descriptor of one that is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH_NUMBER) } {
        -1 => file.into(),
        // SAFETY: the descriptor is new and has no other owner.
        descriptor => unsafe { OwnedFd::from_raw_fd(descriptor) },
    }
}

/// What a descriptor leads to now; zeroes if it is not open. Async-signal-safe.
pub(crate) fn status(descriptor: RawFd) -> libc::stat {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills in the struct, or leaves it zero; zeroes are a valid `stat`.
    unsafe {
        libc::fstat(descriptor, stat.as_mut_ptr());
        stat.assume_init()
    }
}
