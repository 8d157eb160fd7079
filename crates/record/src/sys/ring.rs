//! The ring that the kernel writes records into, mapped into this process.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::Event;

// Offsets in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;

/// A ring, which owns the event that it was mapped from.
#[derive(Debug)]
pub(crate) struct Ring {
    event: Event,
    base: *mut u8,
    mapped: usize,
    data: *const u8,
    /// A power of two.
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, and it is only read and its tail written through `&mut`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` pages (a power of two) for `event`. Gives the event back on failure.
    pub(crate) fn map(event: Event, pages: usize) -> Result<Self, (Event, io::Error)> {
        let page = super::machine::page_size();
        let mapped = (pages + 1) * page;
        // SAFETY: a new mapping is asked for at an address of the kernel's choice; nothing is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err((event, io::Error::last_os_error()));
        }
        let base = base.cast::<u8>();
        // SAFETY: the first page of the mapping is the kernel's header, aligned and at least 1,048 bytes; a
        // kernel before 4.1 leaves the field 0, which means the second page.
        let offset = unsafe { base.add(DATA_OFFSET).cast::<u64>().read() };
        let offset = if offset == 0 { page } else { offset as usize };
        // SAFETY: the data area starts within the mapping.
        let data = unsafe { base.add(offset) };
        Ok(Self { event, base, mapped, data, size: pages * page })
    }

    /// The descriptor to poll and to redirect other events to.
    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Bytes that the ring holds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Moves everything that was written to the end of `into`. Returns how many bytes that were.
    pub(crate) fn drain(&mut self, into: &mut Vec<u8>) -> usize {
        let (head, tail) = (self.counter(DATA_HEAD), self.counter(DATA_TAIL));
        // Acquire: what the kernel wrote before it moved the head is visible after this.
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let length = (end.wrapping_sub(start) as usize).min(self.size);
        if length == 0 {
            return 0;
        }
        let from = start as usize & (self.size - 1);
        let first = length.min(self.size - from);
        // SAFETY: both pieces lie within the data area, and the kernel does not write between tail and head.
        unsafe {
            into.extend_from_slice(std::slice::from_raw_parts(self.data.add(from), first));
            into.extend_from_slice(std::slice::from_raw_parts(self.data, length - first));
        }
        // Release: the kernel may overwrite only after the copy is done.
        tail.store(end, Ordering::Release);
        length
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the header page holds an aligned u64 there for as long as the mapping lives.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `map` and nothing borrowed from it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}
