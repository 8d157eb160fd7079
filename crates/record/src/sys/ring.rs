//! The ring into which the kernel writes records, mapped into this process.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_unwind::perf_event::ring_page::{DATA_HEAD, DATA_OFFSET, DATA_TAIL};

use super::event::PerfEvent;

/// After this many bytes, their space is returned to the kernel.
const FREE_BYTES: u64 = 64 << 10;

/// A ring, which owns the event that it was mapped from.
#[derive(Debug)]
pub(crate) struct Ring {
    event: PerfEvent,
    base: *mut u8,
    mapped: usize,
    data: *const u8,
    /// A power of two.
    size: usize,
    /// A copy of the record that wraps around the end.
    wrapped: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone, and it is only read and its tail written through `&mut`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` pages (a power of two) for `event`. Returns the event on failure.
    pub(crate) fn map(event: PerfEvent, pages: usize) -> Result<Self, (PerfEvent, io::Error)> {
        let page = super::machine::page_size();
        let mapped = (pages + 1) * page;
        // SAFETY: a new mapping is requested at an address of the kernel's choice; nothing is replaced.
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
        Ok(Self { event, base, mapped, data, size: pages * page, wrapped: Vec::new() })
    }

    /// Returns the descriptor to poll and to redirect other events to.
    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Returns the capacity in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Passes every written record to `take`, complete and in order, and then frees its space. The records are not
    /// copied, and the kernel may need their space while `take` runs, so it should not block.
    pub(crate) fn for_each(&mut self, mut take: impl FnMut(&[u8])) {
        // Acquire: what the kernel wrote before it moved the head is visible after this.
        let end = self.counter(DATA_HEAD).load(Ordering::Acquire);
        let mut at = self.counter(DATA_TAIL).load(Ordering::Relaxed);
        let mut freed = at;
        while let Some(length) = self.length_at(at, end) {
            let next = at.wrapping_add(length as u64);
            self.prefetch(next, end);
            take(self.bytes_at(at, length));
            at = next;
            if at.wrapping_sub(freed) >= FREE_BYTES {
                // Release: the kernel may overwrite the record only after it was taken.
                self.counter(DATA_TAIL).store(at, Ordering::Release);
                freed = at;
            }
        }
        if freed != end {
            // Release, as above. If a length was wrong, the remaining records cannot be separated and are dropped.
            self.counter(DATA_TAIL).store(end, Ordering::Release);
        }
    }

    /// Prefetches the beginning of a record while the previous one is processed: another CPU wrote it, and unwinding
    /// would wait for it cache line by cache line.
    fn prefetch(&self, at: u64, end: u64) {
        const LINE: usize = 64;
        const LONGEST: u64 = 3 << 10;
        let from = at as usize & (self.size - 1);
        let length = (end.wrapping_sub(at).min(LONGEST) as usize).min(self.size - from);
        for offset in (0..length).step_by(LINE) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the address is in the data area, and a prefetch has no effect but on the cache.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.data.add(from + offset).cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = offset;
        }
    }

    /// Returns the length of the record at `at`, which must be before `end`.
    fn length_at(&self, at: u64, end: u64) -> Option<usize> {
        let left = end.wrapping_sub(at);
        if left < 8 || left > self.size as u64 {
            return None;
        }
        let place = at as usize & (self.size - 1);
        // SAFETY: records are multiples of eight bytes, so a header does not wrap and is in the data area; the
        // kernel does not write between tail and head.
        let length = unsafe { self.data.add(place + 6).cast::<u16>().read() };
        let length = usize::from(u16::from_le(length));
        (length >= 8 && length as u64 <= left && length.is_multiple_of(8)).then_some(length)
    }

    /// Returns `length` bytes from `at` on, copied together if they wrap around the end.
    fn bytes_at(&mut self, at: u64, length: usize) -> &[u8] {
        let from = at as usize & (self.size - 1);
        let first = length.min(self.size - from);
        // SAFETY: both pieces lie within the data area, and the kernel does not write between tail and head,
        // which moves only after the slice is done with.
        let (first, rest) = unsafe {
            let first = std::slice::from_raw_parts(self.data.add(from), first);
            (first, std::slice::from_raw_parts(self.data, length - first.len()))
        };
        if rest.is_empty() {
            return first;
        }
        self.wrapped.clear();
        self.wrapped.extend_from_slice(first);
        self.wrapped.extend_from_slice(rest);
        &self.wrapped
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
