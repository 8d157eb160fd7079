//! Processes the records: follows processes, unwinds and counts stacks, and pairs times.

mod arguments;
mod before;
mod blocked;
mod counters;
mod findings;
mod images;
mod intake;
mod latencies;
pub(crate) mod live_stack;
mod order;
mod origins;
mod rows;
mod spaces;
mod stack_collector;
mod stack_table;
mod syscalls;
mod threads;
mod traced;

pub(crate) use arguments::ArgumentsId;
pub(crate) use counters::Counters;
pub(crate) use findings::Findings;
pub(crate) use images::Images;
pub use latencies::Latencies;
pub(crate) use rows::{Meaning, SampleRow};
pub(crate) use spaces::{Published, SharedModules};
pub(crate) use stack_collector::{LARGEST_DUMP, StackCollector};
pub(crate) use stack_table::{MappingNumber, StackNumber, is_kernel};
pub use syscalls::SyscallStats;
pub(crate) use syscalls::{CallKey, CallTotals};

use crate::events::chunk::Chunk;
use crate::events::ring_records::ThreadOf;
use crate::events::session::Origins;
use intake::Intake;
use order::Order;

/// Puts the kernel's records in order and collects what they say.
pub(crate) struct Collector {
    order: Order,
    intake: Intake,
}

impl Collector {
    /// Adds the records of `rings` rings to `findings`; a CPU sample stands for `cpu_period` nanoseconds.
    pub(crate) fn new(rings: usize, origins: Origins, cpu_period: u64, findings: Findings) -> Self {
        Self { order: Order::new(rings), intake: Intake::new(origins, cpu_period, findings) }
    }

    /// Takes in what was read from some rings.
    pub(crate) fn add(&mut self, chunks: Vec<Chunk>) {
        chunks.into_iter().for_each(|chunk| self.order.add(chunk));
        let intake = &mut self.intake;
        self.order.take_due(|due| intake.take(&due));
        intake.complete_blocked();
    }

    /// Takes the records that still wait, and closes whatever is open at `now`.
    pub(crate) fn finish(mut self, now: u64) -> Findings {
        let intake = &mut self.intake;
        self.order.take_rest(|due| intake.take(&due));
        intake.close(now);
        intake.add_interrupted();
        self.intake.findings
    }

    /// Returns what has been collected so far.
    pub(crate) fn so_far(&self) -> &Findings {
        &self.intake.findings
    }

    /// Adds a process that existed before the recording.
    pub(crate) fn introduce(&mut self, pid: u32, with_waits: bool) {
        self.intake.findings.stacks.spaces.of(pid);
        for tid in crate::processes::threads(pid) {
            let thread = ThreadOf { pid, tid };
            self.intake.findings.threads.of(thread);
            if with_waits {
                self.intake.note_wait(thread);
            }
        }
    }
}
