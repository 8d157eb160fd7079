//! Memory straight from the kernel.

use std::ptr;

use crate::errno::Errno;

/// Reserves `length` bytes of address space that cannot be accessed yet.
pub(crate) fn reserve(length: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let _errno = Errno::keep();
    // SAFETY: a new mapping at an address of the kernel's choice.
    mapped(unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) })
}

/// Makes a part of what [`reserve`] returned inaccessible again; does nothing if `length` is 0.
///
/// # Safety
/// Nothing may use it any more, and it must belong to the caller.
pub(crate) unsafe fn reserve_again(at: *mut u8, length: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: as the caller says. If it fails, what is mapped there stays, and is mapped over when it is needed.
    unsafe { libc::mmap(at.cast(), length, libc::PROT_NONE, flags, -1, 0) };
}

/// Returns zeroed private memory, which takes room only where it is touched.
pub(crate) fn zeroed(length: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let _errno = Errno::keep();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = mapped(unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) })?;
    // SAFETY: the mapping was just made. Large pages would make untouched parts take room.
    unsafe { libc::madvise(memory.cast(), length, libc::MADV_NOHUGEPAGE) };
    Some(memory)
}

/// Unmaps what `reserve` or `zeroed` returned.
///
/// # Safety
/// Nothing may use it any more.
pub(crate) unsafe fn give_back(memory: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::munmap(memory.cast(), length) };
}

/// Maps a part of a file, shared, over what was reserved at `at`, or anywhere if that is null.
///
/// # Safety
/// `at` must be null, or `at..at + length` must belong to the caller.
pub(crate) unsafe fn file(at: *mut u8, length: usize, descriptor: i32, offset: usize) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | if at.is_null() { 0 } else { libc::MAP_FIXED };
    // SAFETY: as the caller says.
    mapped(unsafe { libc::mmap(at.cast(), length, access, flags, descriptor, offset as libc::off_t) })
}

/// Zeroes private memory again, and gives its pages back to the kernel.
///
/// # Safety
/// The memory must come from [`zeroed`].
pub(crate) unsafe fn clear(memory: *mut u8, length: usize) {
    // SAFETY: as the caller says: private and anonymous memory reads as zeroes afterwards.
    unsafe { libc::madvise(memory.cast(), length, libc::MADV_DONTNEED) };
}

fn mapped(result: *mut libc::c_void) -> Option<*mut u8> {
    (result != libc::MAP_FAILED).then(|| result.cast())
}
