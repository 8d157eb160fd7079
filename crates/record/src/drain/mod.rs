//! Emptying the rings, apart from everything that takes time.
//!
//! [`batch`] wakes up when a ring is a quarter full or a moment has passed, and hands what the rings hold to
//! the collector. [`eager`] has a thread pinned to each CPU that takes each sample at once and completes its
//! stack from the live memory of the thread, which still stands where it was sampled. Both unwind what they
//! can in the ring itself ([`unwinder`]).

pub(crate) mod batch;
pub(crate) mod eager;
mod unwinder;

use std::sync::mpsc;
use std::time::Duration;

use crate::events::chunk::{Backlog, Chunk, Kept};

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
