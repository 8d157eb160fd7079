//! What is taken out of a ring and passed to the collector, and the limit on how much may wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// What was taken out of one ring at one time.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) ring: usize,
    /// Everything written before this time is in this chunk or in an earlier one.
    pub(crate) read_at: u64,
    pub(crate) kept: Kept,
    /// Counts towards the backlog for as long as it waits.
    pub(crate) waiting: Option<Pending>,
    /// Where the buffers go when their records are processed.
    pub(crate) home: Option<mpsc::Sender<Kept>>,
}

/// How much was taken out of the rings and is not processed yet. Beyond a limit, records stay in the rings: a full
/// ring loses records, which is counted, but this process does not use up all memory.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    bytes: Arc<AtomicUsize>,
    most: usize,
}

impl Backlog {
    /// For rings of this many bytes in all. There must be room for twice their content, because the last records of
    /// each ring wait for the next ones.
    pub(crate) fn new(ring_bytes: usize) -> Self {
        const USUAL: usize = 512 << 20;
        Self { bytes: Arc::default(), most: USUAL.max(ring_bytes.saturating_mul(4)) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most
    }

    pub(crate) fn add(&self, bytes: usize) -> Pending {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Pending { bytes, all: self.bytes.clone() }
    }
}

/// A part of the backlog, which is released on drop.
#[derive(Debug)]
pub(crate) struct Pending {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What was kept of the records of a ring.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The records, complete except for the stacks below.
    pub(crate) bytes: Vec<u8>,
    /// The stacks of samples that have been unwound already.
    pub(crate) unwound: Unwound,
}

impl Kept {
    /// Empties the buffers and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.unwound.frames.clear();
        self.unwound.stacks.clear();
    }
}

/// Complete stacks, unwound when their samples were taken out of the ring.
#[derive(Debug, Default)]
pub(crate) struct Unwound {
    pub(crate) frames: Vec<u64>,
    /// In the order of the records.
    pub(crate) stacks: Vec<UnwoundStack>,
}

/// A part of [`Unwound::frames`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnwoundStack {
    /// Where the record begins in the chunk.
    pub(crate) record: u32,
    pub(crate) first: u32,
    pub(crate) depth: u32,
}

impl Unwound {
    /// Returns the stack of the record at `offset`.
    pub(crate) fn stack(&self, offset: u32) -> Option<&[u64]> {
        let at = self.stacks.binary_search_by_key(&offset, |stack| stack.record).ok()?;
        let stack = self.stacks[at];
        self.frames.get(stack.first as usize..(stack.first + stack.depth) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_until_it_is_done() {
        let backlog = Backlog { most: 100, ..Backlog::new(0) };
        let pending = backlog.add(101);
        assert!(backlog.is_full());
        drop(pending);
        assert!(!backlog.is_full());
        assert_eq!(Backlog::new(1 << 30).most, 4 << 30);
    }
}
