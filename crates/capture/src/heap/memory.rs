//! Memory straight from the kernel: nothing the heap profiler keeps comes from the allocator it watches.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Zeroed private memory of `words` words, which is never given back.
pub(super) fn private_words(words: usize) -> io::Result<&'static [AtomicU64]> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let start = map(words * 8, flags, -1)?;
    // Pages are touched one by one as tables fill; huge pages would make all of it resident at once.
    // SAFETY: the range was mapped just now; a kernel that refuses the advice changes nothing.
    unsafe {
        libc::madvise(start.as_ptr().cast(), words * 8, libc::MADV_NOHUGEPAGE);
    }
    // SAFETY: the mapping is that long, page aligned, zeroed, and never unmapped; atomics are shared freely.
    Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), words) })
}

/// The first `words` words of `file`, shared with it, and never unmapped.
///
/// The blocks of the file are reserved first: a store to a hole on a full disk would kill the process.
pub(super) fn shared_words(file: &File, words: usize) -> io::Result<&'static [AtomicU64]> {
    reserve(file, words * 8)?;
    let start = map(words * 8, libc::MAP_SHARED, file.as_raw_fd())?;
    // SAFETY: the mapping is that long, page aligned and never unmapped; the file has the length, and its
    // blocks are reserved, so that reads and writes do not fault unless somebody truncates it. We never do:
    // every start has a file of its own (`files`).
    Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), words) })
}

/// Makes `file`, which is new, `bytes` long, with all its blocks on disk.
pub(super) fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a system call on a descriptor that is open for the length of the call.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn map(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<NonNull<AtomicU64>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    match NonNull::new(start.cast::<AtomicU64>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}
