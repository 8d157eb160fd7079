//! Reads the memory of another process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of one process. It is opened once, because the kernel checks permission on opening and not on every
/// read.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    pid: u32,
    file: File,
}

impl ProcessMemory {
    /// Opens the memory of the process `pid`, or of the process of the thread `pid`.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, file: File::open(format!("/proc/{pid}/mem"))? })
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads up to `into.len()` bytes at `address`. Returns how many were read; none if the process has executed
    /// another program since, or has ended.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, address)
    }
}
