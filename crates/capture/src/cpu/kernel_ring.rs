//! The kernel's side of a sample: a ring of two pages to which a perf event writes kernel call chains, and which the
//! handler of the same thread empties. Async-signal-safe, except for making one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_unwind::perf_event::record_kind::{LOST, SAMPLE};
use flamelet_unwind::perf_event::{callchain, ring_page};

/// Where the kernel's first page keeps its positions, in words.
const HEAD: usize = ring_page::DATA_HEAD / 8;
const TAIL: usize = ring_page::DATA_TAIL / 8;

/// The ring of one event: a page of positions, and one of records.
#[derive(Debug)]
pub(super) struct KernelRing {
    pages: *const AtomicU64,
    /// The size of a page: 4, 16 or 64 KB.
    page: usize,
}

// SAFETY: the memory is the kernel's and this process'; every access is atomic.
unsafe impl Send for KernelRing {}
// SAFETY: as above.
unsafe impl Sync for KernelRing {}

/// What a ring held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// How many samples the kernel took since the last read.
    pub(super) samples: u64,
    /// How many frames of the last one were written.
    pub(super) depth: usize,
}

impl KernelRing {
    pub(super) fn map(event: BorrowedFd<'_>) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: reads a constant of the system.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        // SAFETY: maps new memory at a place of the kernel's choice.
        let pages = unsafe {
            libc::mmap(std::ptr::null_mut(), 2 * page, access, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if pages == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { pages: pages.cast(), page })
        }
    }

    /// Empties the ring, and writes the kernel frames of its last sample to `frames`, leaf first, callers as their
    /// return address minus one. Uses at most half of `frames`.
    pub(super) fn read(&self, frames: &mut [u64]) -> Read {
        let (head, tail) = (self.word(HEAD).load(Ordering::Acquire), self.word(TAIL));
        let mut at = tail.load(Ordering::Relaxed);
        let mut read = Read::default();
        while at < head {
            let header = self.record_word(at);
            let (kind, size) = (header as u32, header >> 48);
            if size < 8 || at + size > head {
                break;
            }
            if kind == SAMPLE {
                read.samples += 1;
                let (words, room) = ((size / 8).saturating_sub(2), frames.len() / 2);
                let count = self.record_word(at + 8).min(words);
                read.depth = self.copy_chain(at + 16, count, &mut frames[..room]);
            }
            // While the signal was blocked the ring may have been full: the number of samples that did not fit
            // follows the event's id.
            if kind == LOST && size >= 24 {
                read.samples = read.samples.saturating_add(self.record_word(at + 16));
            }
            at += size;
        }
        tail.store(head, Ordering::Release);
        read
    }

    /// Copies `count` words from `at`, without the marks.
    fn copy_chain(&self, at: u64, count: u64, frames: &mut [u64]) -> usize {
        let addresses = (0..count).map(|index| self.record_word(at + 8 * index));
        let addresses = addresses.filter(|&address| address != 0 && address < callchain::FIRST);
        let mut depth = 0;
        for (frame, address) in frames.iter_mut().zip(addresses) {
            *frame = address - u64::from(depth > 0);
            depth += 1;
        }
        depth
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `index` is below the words of the two pages, which are mapped as long as `self` is.
        unsafe { &*self.pages.add(index % (2 * self.page / 8)) }
    }

    /// Returns the word at a position of the records, which wrap around.
    fn record_word(&self, at: u64) -> u64 {
        let index = (at as usize % self.page) / 8;
        self.word(self.page / 8 + index).load(Ordering::Relaxed)
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size; handlers that could read it were stopped from doing so before.
        unsafe { libc::munmap(self.pages.cast_mut().cast(), 2 * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring over memory of its own, with records from `at` on.
    fn ring(page: usize, at: u64, records: &[u64]) -> (Vec<AtomicU64>, KernelRing) {
        let memory: Vec<AtomicU64> = (0..2 * page / 8).map(|_| AtomicU64::new(0)).collect();
        for (index, &word) in records.iter().enumerate() {
            let place = (at as usize / 8 + index) % (page / 8);
            memory[page / 8 + place].store(word, Ordering::Relaxed);
        }
        memory[TAIL].store(at, Ordering::Relaxed);
        memory[HEAD].store(at + records.len() as u64 * 8, Ordering::Relaxed);
        let ring = KernelRing { pages: memory.as_ptr(), page };
        (memory, ring)
    }

    fn header(kind: u32, words: u64) -> u64 {
        u64::from(kind) | (words * 8) << 48
    }

    #[test]
    fn the_last_chain_is_read_across_the_end_of_the_page_and_all_samples_are_counted() {
        let mark = callchain::KERNEL;
        let mut records = vec![header(SAMPLE, 4), 2, mark, 0xffff_0001];
        records.extend([header(LOST, 3), 77, 5]);
        records.extend([header(SAMPLE, 5), 3, mark, 0xffff_1000, 0xffff_2000]);
        for page in [4 << 10, 64 << 10] {
            let (memory, ring) = ring(page, page as u64 * 3 - 40, &records);
            let mut frames = [0; 8];
            assert_eq!(ring.read(&mut frames), Read { samples: 2 + 5, depth: 2 });
            assert_eq!(frames[..2], [0xffff_1000, 0xffff_1fff]);
            assert_eq!(ring.read(&mut frames), Read::default(), "it is empty now");
            std::mem::forget(ring);
            drop(memory);
        }
    }

    #[test]
    fn nonsense_ends_the_read() {
        for records in [[0, 0, 0], [header(SAMPLE, 100), 2, 3], [header(SAMPLE, 2), u64::MAX, 0]] {
            let (memory, ring) = ring(4 << 10, 0, &records);
            assert_eq!(ring.read(&mut [0; 8]).depth, 0);
            std::mem::forget(ring);
            drop(memory);
        }
    }
}
