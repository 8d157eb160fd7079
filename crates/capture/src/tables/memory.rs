//! Memory straight from the kernel: what a hook writes to comes from no allocator.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Returns zeroed private memory of `words` words, which is never freed.
pub(crate) fn private_words(words: usize) -> io::Result<&'static [AtomicU64]> {
    let start = map(words * 8)?;
    // Pages are touched one by one as tables fill; huge pages would make all of it resident at once.
    // SAFETY: the range was mapped just now; a kernel that refuses the advice changes nothing.
    unsafe {
        libc::madvise(start.as_ptr().cast(), words * 8, libc::MADV_NOHUGEPAGE);
    }
    // SAFETY: the mapping is that long, page aligned, zeroed, and never unmapped; atomics are shared freely.
    Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), words) })
}

fn map(bytes: usize) -> io::Result<NonNull<AtomicU64>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    match NonNull::new(start.cast::<AtomicU64>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}
