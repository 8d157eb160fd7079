//! Reading the memory of another process.

use std::io;

/// Reads up to `into.len()` bytes at `address` of the process (or thread) `pid`. Returns how many there were.
pub(crate) fn read(pid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the local range is the slice, which the kernel may fill; the remote one is checked by the kernel.
    let result =
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}
