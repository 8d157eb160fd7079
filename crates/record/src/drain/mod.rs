//! Emptying the rings, apart from everything that takes time.
//!
//! [`batch`] wakes up when a ring is a quarter full or a moment has passed, and hands what the rings hold to
//! the collector. [`eager`] has a thread pinned to each CPU that takes each sample at once and completes its
//! stack from the live memory of the thread, which still stands where it was sampled. Both unwind what they
//! can in the ring itself ([`unwinder`]).

pub(crate) mod batch;
pub(crate) mod eager;
mod unwinder;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long records may lie in a ring that does not fill up, or wait to be handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    longest: Duration,
}

impl Pace {
    /// Each time threads are woken that the target could have run instead of; but blocked threads, whose stacks are
    /// read where they stand, wait for nobody.
    pub(crate) fn new(with_blocked_threads: bool) -> Self {
        Self { longest: Duration::from_millis(if with_blocked_threads { 50 } else { 150 }) }
    }

    /// At first rings are emptied more often, so that the programs are known, and stacks that are cut noticed, before
    /// many samples were taken.
    fn early(self, round: u32) -> Duration {
        const EARLY_ROUNDS: u32 = 80;
        const EARLY: Duration = Duration::from_millis(5);
        if round < EARLY_ROUNDS { EARLY } else { self.longest }
    }
}

/// What the collector is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Records of several rings.
    Chunks(Vec<Chunk>),
    /// The events were stopped at this moment.
    Stopped(u64),
    /// A process that was there before the recording.
    Introduce {
        pid: u32,
        /// Find out where its threads wait.
        with_waits: bool,
    },
}

/// What was taken out of one ring at one moment.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Which ring.
    pub(crate) ring: usize,
    /// Everything that was written before this moment is in this chunk or in one before it.
    pub(crate) read_at: u64,
    pub(crate) kept: Kept,
    /// Counts it for as long as it waits.
    pub(crate) waiting: Option<Waiting>,
    /// Where the buffers go when their records are done.
    pub(crate) home: Option<mpsc::Sender<Kept>>,
}

/// How much was taken out of the rings and not worked off. Beyond a limit it stays there: a ring that is full loses
/// records, which is counted, and this process does not take all memory.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    bytes: Arc<AtomicUsize>,
    most: usize,
}

impl Backlog {
    /// For rings of so many bytes together. What they hold twice must have room: the last records of each ring wait for
    /// the next ones.
    pub(crate) fn new(ring_bytes: usize) -> Self {
        const USUAL: usize = 512 << 20;
        Self { bytes: Arc::default(), most: USUAL.max(ring_bytes.saturating_mul(4)) }
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most
    }

    fn add(&self, bytes: usize) -> Waiting {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Waiting { bytes, all: self.bytes.clone() }
    }
}

/// A part of the backlog, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What was kept of the records of a ring.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The records, whole but for the stacks below.
    pub(crate) bytes: Vec<u8>,
    /// The stacks of samples that were unwound already.
    pub(crate) unwound: Unwound,
}

impl Kept {
    /// Leaves the buffers only.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.unwound.frames.clear();
        self.unwound.stacks.clear();
    }
}

/// Whole stacks, unwound when their samples were taken out of the ring.
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
    /// The stack of the record at `offset`.
    pub(crate) fn stack(&self, offset: u32) -> Option<&[u64]> {
        let at = self.stacks.binary_search_by_key(&offset, |stack| stack.record).ok()?;
        let stack = self.stacks[at];
        self.frames.get(stack.first as usize..(stack.first + stack.depth) as usize)
    }
}

/// Sends chunks to the collector and gets emptied buffers back.
pub(crate) struct Outlet {
    chunks: mpsc::Sender<Message>,
    empty: mpsc::Receiver<Kept>,
    home: mpsc::Sender<Kept>,
    backlog: Backlog,
    pace: Pace,
}

impl Outlet {
    pub(crate) fn new(chunks: mpsc::Sender<Message>, backlog: Backlog, pace: Pace) -> Self {
        let (home, empty) = mpsc::channel();
        Self { chunks, empty, home, backlog, pace }
    }

    /// Buffers that were used before, or new ones; empty.
    fn buffers(&self) -> Kept {
        self.empty.try_recv().unwrap_or_default()
    }

    /// What was read of one ring.
    fn chunk(&self, ring: usize, read_at: u64, kept: Kept) -> Chunk {
        let waiting = Some(self.backlog.add(kept.bytes.len()));
        Chunk { ring, read_at, kept, waiting, home: Some(self.home.clone()) }
    }

    /// Hands over what was read. A collector that is gone needs nothing.
    fn send(&self, chunks: Vec<Chunk>) {
        let _ = self.chunks.send(Message::Chunks(chunks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_until_it_is_done() {
        let backlog = Backlog { most: 100, ..Backlog::new(0) };
        let (send, inbox) = mpsc::channel();
        let outlet = Outlet::new(send, backlog.clone(), Pace::new(false));
        let kept = Kept { bytes: vec![0; 101], ..Kept::default() };
        outlet.send(vec![outlet.chunk(0, 1, kept)]);
        assert!(backlog.is_full());
        drop(inbox.recv());
        assert!(!backlog.is_full());
        assert_eq!(Backlog::new(1 << 30).most, 4 << 30);
    }
}
