//! One thread that drains all rings.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::unwinder::Unwinder;
use super::{DrainContext, Drained, Outlet, RINGS, call_stacks};
use crate::Result;
use crate::events::session::CpuRings;
use crate::sys::machine::{self, Bell};
use crate::sys::sched;

/// The running thread. It ends when this is dropped, because a recording may fail after it was prepared.
pub(crate) struct BatchDrain {
    bell: Arc<Bell>,
    /// `None` once it is joined.
    thread: Option<JoinHandle<Drained>>,
}

impl BatchDrain {
    pub(crate) fn start(rings: Vec<CpuRings>, outlet: Outlet, context: &DrainContext) -> Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let theirs = bell.clone();
        let unwinder = Unwinder::new(context);
        let thread = std::thread::Builder::new().name("flamelet-drain".to_owned()).spawn(move || {
            // It waits for nothing but records, and running late would lose samples.
            sched::run_first();
            run(rings, &outlet, &theirs, unwinder)
        })?;
        Ok(Self { bell, thread: Some(thread) })
    }

    /// Empties the rings once more and ends. Stop the events first: records that are written later stay in the rings.
    pub(crate) fn finish(mut self) -> Result<Drained> {
        self.join().ok_or_else(|| crate::Error::new(crate::ErrorKind::Io, "the draining thread failed"))
    }

    fn join(&mut self) -> Option<Drained> {
        self.bell.ring();
        self.thread.take()?.join().ok()
    }
}

impl Drop for BatchDrain {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(mut rings: Vec<CpuRings>, outlet: &Outlet, bell: &Bell, mut unwinder: Unwinder) -> Drained {
    let mut fds = vec![bell.fd()];
    fds.extend(rings.iter().flat_map(|cpu| [cpu.track.fd(), cpu.samples.fd()]));
    let (mut round, mut stacks_at) = (0u32, 0);
    loop {
        let is_last = match machine::poll(&fds, outlet.pace.early(round)) {
            Ok(ready) => ready[0].readable,
            Err(_) => true,
        };
        round = round.saturating_add(1);
        let now = machine::monotonic_nanos();
        let has_stacks = is_last || outlet.pace.takes_call_stacks(round, now - stacks_at);
        if has_stacks {
            stacks_at = now;
        }
        drain_all(&mut rings, outlet, &mut unwinder, is_last, has_stacks);
        if is_last {
            return Drained { rings, cpu_nanos: machine::thread_cpu_nanos() };
        }
    }
}

/// Empties every ring, those with stacks of system calls if `has_stacks`; only the rings that track processes if the
/// backlog is too large already.
fn drain_all(
    rings: &mut [CpuRings],
    outlet: &Outlet,
    unwinder: &mut Unwinder,
    is_last: bool,
    has_stacks: bool,
) {
    let mut chunks = Vec::with_capacity(rings.len() * RINGS);
    let mut settled = u64::MAX;
    for (at, cpu) in rings.iter_mut().enumerate() {
        let read_at = machine::monotonic_nanos();
        settled = settled.min(read_at);
        let mut kept = outlet.buffers();
        cpu.track.for_each(|record| unwinder.keep_track(record, &mut kept));
        chunks.push(outlet.chunk(at * RINGS, read_at, kept));
    }
    let has_room = is_last || !outlet.backlog.is_full();
    for (at, cpu) in rings.iter_mut().enumerate().filter(|_| has_room) {
        let read_at = machine::monotonic_nanos();
        let mut kept = outlet.buffers();
        cpu.samples.for_each(|record| {
            unwinder.keep(record, &mut kept, settled, None);
        });
        chunks.push(outlet.chunk(at * RINGS + 1, read_at, kept));
        // A ring that does not exist is empty, which the collector must know.
        if has_stacks || cpu.call_stacks.is_none() {
            chunks.push(call_stacks(cpu, at, outlet, unwinder, settled));
        }
    }
    outlet.send(chunks);
}
