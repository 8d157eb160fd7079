//! Empties the rings, separately from everything slow.
//!
//! [`batch`] wakes up when a ring is a quarter full or some time has passed, and passes what the rings hold to the
//! collector. [`eager`] has a thread pinned to each CPU that takes each sample at once and completes its stack from
//! the live memory of the thread, which is still where it was sampled. Both unwind what they can in the ring itself
//! ([`unwinder`]).

pub(crate) mod batch;
pub(crate) mod eager;
mod unwinder;

use std::sync::mpsc;
use std::time::Duration;

use crate::events::chunk::{Backlog, Chunk, Kept};
use crate::events::session::CpuRings;
use crate::sys::machine;
pub(crate) use unwinder::DrainContext;
use unwinder::Unwinder;

/// The rings of a CPU: what happens to processes, samples, and stacks of system calls.
pub(crate) const RINGS: usize = 3;

/// How long records may stay in a ring that does not fill up, or wait to be handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainPace {
    longest: Duration,
}

impl DrainPace {
    const EARLY_ROUNDS: u32 = 100;

    /// Each wake-up takes CPU time that the target could have used; but blocked threads, whose stacks are read in
    /// place, may run again at any time.
    pub(crate) fn new(with_blocked_threads: bool) -> Self {
        Self { longest: Duration::from_millis(if with_blocked_threads { 50 } else { 150 }) }
    }

    /// At first the rings are emptied more often, so that the programs are known, and cut stacks noticed, before many
    /// samples are taken.
    fn early(self, round: u32) -> Duration {
        const EARLY: Duration = Duration::from_millis(2);
        if round < Self::EARLY_ROUNDS { EARLY } else { self.longest }
    }

    /// Returns whether to empty the rings with stacks of system calls, `nanos` after the last time. Unwinding them all as
    /// fast as a program makes calls would take a CPU of its own.
    fn takes_call_stacks(self, round: u32, nanos: u64) -> bool {
        const SELDOM: u64 = 25_000_000;
        round < Self::EARLY_ROUNDS || nanos >= SELDOM
    }
}

/// What a drain returns when it ends: the rings, emptied a last time.
pub(crate) struct Drained {
    pub(crate) rings: Vec<CpuRings>,
    pub(crate) cpu_nanos: u64,
}

/// A message to the collector.
#[derive(Debug)]
pub(crate) enum Message {
    /// Records of several rings.
    Chunks(Vec<Chunk>),
    /// The events were stopped at this time.
    Stopped(u64),
    /// A process that existed before the recording.
    Introduce {
        pid: u32,
        /// Whether to find out where its threads wait.
        with_waits: bool,
    },
}

/// Sends chunks to the collector and receives emptied buffers back.
pub(crate) struct Outlet {
    chunks: mpsc::Sender<Message>,
    empty: mpsc::Receiver<Kept>,
    home: mpsc::Sender<Kept>,
    backlog: Backlog,
    pace: DrainPace,
}

impl Outlet {
    pub(crate) fn new(chunks: mpsc::Sender<Message>, backlog: Backlog, pace: DrainPace) -> Self {
        let (home, empty) = mpsc::channel();
        Self { chunks, empty, home, backlog, pace }
    }

    /// Returns empty buffers, reused or new.
    fn buffers(&self) -> Kept {
        self.empty.try_recv().unwrap_or_default()
    }

    /// Wraps what was read from one ring.
    fn chunk(&self, ring: usize, read_at: u64, kept: Kept) -> Chunk {
        let waiting = Some(self.backlog.add(kept.bytes.len()));
        Chunk { ring, read_at, kept, waiting, home: Some(self.home.clone()) }
    }

    /// Hands over what was read. A collector that has ended needs nothing.
    fn send(&self, chunks: Vec<Chunk>) {
        let _ = self.chunks.send(Message::Chunks(chunks));
    }
}

/// Takes the stacks of system calls out of the ring of the CPU at index `at`, if there is one.
fn call_stacks(
    cpu: &mut CpuRings,
    at: usize,
    outlet: &Outlet,
    unwinder: &mut Unwinder,
    settled: u64,
) -> Chunk {
    let read_at = machine::monotonic_nanos();
    let mut kept = outlet.buffers();
    if let Some(ring) = &mut cpu.call_stacks {
        ring.for_each(|record| {
            unwinder.keep(record, &mut kept, settled, None);
        });
    }
    outlet.chunk(at * RINGS + 2, read_at, kept)
}
