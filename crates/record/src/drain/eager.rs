//! A thread pinned to each CPU, which takes each sample as soon as it is written.
//!
//! It preempts the thread that was just sampled, so that thread is still where the sample says, and the rest of its
//! stack beyond the dump can be read live. A late reader would read the frames of another call, so a sample older
//! than [`FRESH`] stays cut. Without real-time priority the sampled thread may run on for a while before it is
//! preempted; the samples of such a delay stay cut too.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::unwinder::Unwinder;
use super::{DrainContext, Drained, Outlet, RINGS, call_stacks};
use crate::collect::live_stack::LiveStack;
use crate::events::chunk::{Chunk, Kept};
use crate::events::session::CpuRings;
use crate::sys::machine::{self, Bell, Waiter};
use crate::sys::sched::{self, RunDelay, Urgency};
use crate::{Error, ErrorKind, Result};

/// How old a sample may be when its stack is read.
const FRESH: u64 = 150_000;
/// How long the sampled thread may go on running before this one preempts it, in nanoseconds: a switch at once takes
/// a few hundred, and a later one two thousand and more.
const PROMPT: u64 = 1_000;

/// The running threads. They end when this is dropped.
pub(crate) struct EagerDrain {
    bell: Arc<Bell>,
    nudge: Arc<Bell>,
    threads: Vec<JoinHandle<Option<(CpuRings, u64)>>>,
    urgency: Arc<Mutex<Option<Urgency>>>,
}

impl EagerDrain {
    pub(crate) fn start(
        rings: Vec<CpuRings>,
        mut outlets: Vec<Outlet>,
        context: &DrainContext,
    ) -> Result<Self, (Error, Vec<CpuRings>)> {
        let (bell, nudge) = match (Bell::new(), Bell::new()) {
            (Ok(bell), Ok(nudge)) => (Arc::new(bell), Arc::new(nudge)),
            (Err(error), _) | (_, Err(error)) => return Err((error.into(), rings)),
        };
        let urgency = Arc::new(Mutex::new(None));
        let (mut threads, mut doors) = (Vec::new(), Vec::new());
        for (at, cpu) in rings.iter().enumerate() {
            let Some(outlet) = outlets.pop() else { break };
            let worker = Worker {
                bell: bell.clone(),
                nudge: nudge.clone(),
                outlet,
                at,
                unwinder: Unwinder::new(context),
                live: LiveStack::new(FRESH),
            };
            let urgency = urgency.clone();
            let thread = std::thread::Builder::new().name(format!("flamelet-cpu{}", cpu.cpu));
            // Threads receive their rings only once all threads run: if one cannot start, all rings are still here.
            let (door, entering) = mpsc::channel::<CpuRings>();
            let started = thread.spawn(move || {
                let rings = entering.recv().ok()?;
                let _ = sched::pin_to(rings.cpu);
                let reached = sched::run_first();
                *urgency.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
                Some(worker.run(rings, Promptness::of_this_thread(reached)))
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) => return Err((error.into(), rings)),
            }
            doors.push(door);
        }
        for (door, rings) in doors.iter().zip(rings) {
            let _ = door.send(rings);
        }
        Ok(Self { bell, nudge, threads, urgency })
    }

    /// How the threads got their priority, once they run.
    pub(crate) fn urgency(&self) -> Option<Urgency> {
        *self.urgency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every thread hand over what its rings hold, even without samples; call it now and then, and at first more
    /// often: until the collector knows the code of a new process, its stacks stay cut. (Timeouts of their own would cost a
    /// timer for each sample.)
    pub(crate) fn nudge(&self) {
        self.nudge.ring();
    }

    /// Empties the rings once more and ends.
    pub(crate) fn finish(mut self) -> Result<Drained> {
        self.join().ok_or_else(|| Error::new(ErrorKind::Io, "a draining thread failed"))
    }

    fn join(&mut self) -> Option<Drained> {
        self.bell.ring();
        // All of them end before the first failure is returned.
        let ended: Vec<_> = self.threads.drain(..).map(|thread| thread.join().ok().flatten()).collect();
        let mut drained = Drained { rings: Vec::new(), cpu_nanos: 0 };
        for thread in ended {
            let (rings, cpu_nanos) = thread?;
            drained.rings.push(rings);
            drained.cpu_nanos += cpu_nanos;
        }
        Some(drained)
    }
}

impl Drop for EagerDrain {
    fn drop(&mut self) {
        self.join();
    }
}

/// Records taken out of a ring and not handed over yet.
#[derive(Default)]
struct Batch {
    kept: Kept,
    read_at: u64,
    since: u64,
}

impl Batch {
    fn is_due(&self, longest: Duration) -> bool {
        const LARGE: usize = 2 << 20;
        self.kept.bytes.len() >= LARGE
            || u128::from(self.read_at.saturating_sub(self.since)) >= longest.as_nanos()
    }
}

/// Whether the sampled thread was preempted as soon as it was sampled.
enum Promptness {
    /// Real-time threads preempt all others at once.
    Always,
    /// The scheduler decides each time.
    Measured(RunDelay),
    Unknown,
}

impl Promptness {
    fn of_this_thread(urgency: Urgency) -> Self {
        match (urgency, RunDelay::of_this_thread()) {
            (Urgency::Realtime, _) => Self::Always,
            (_, Some(delay)) => Self::Measured(delay),
            (_, None) => Self::Unknown,
        }
    }

    /// Returns whether this thread ran as soon as it was woken. Call it once after each wake-up.
    fn ran_at_once(&mut self) -> bool {
        match self {
            Self::Always => true,
            Self::Measured(delay) => delay.since_last().is_some_and(|nanos| nanos < PROMPT),
            Self::Unknown => false,
        }
    }
}

struct Worker {
    bell: Arc<Bell>,
    nudge: Arc<Bell>,
    outlet: Outlet,
    at: usize,
    unwinder: Unwinder,
    live: LiveStack,
}

impl Worker {
    /// Returns the rings and the CPU time used.
    fn run(mut self, mut rings: CpuRings, mut promptness: Promptness) -> (CpuRings, u64) {
        const BELL: u64 = 1;
        const SAMPLES: u64 = 2;
        const NUDGE: u64 = 4;
        let longest = self.outlet.pace.longest;
        let fds = [self.bell.fd(), rings.samples.fd(), self.nudge.fd()];
        let Ok(waiter) = Waiter::new(&fds) else { return (rings, 0) };
        let mut batch = Batch { since: machine::monotonic_nanos(), ..Batch::default() };
        loop {
            let ready = waiter.wait().unwrap_or(BELL);
            let is_prompt = promptness.ran_at_once();
            let is_last = ready & BELL != 0;
            if !is_last && self.outlet.backlog.is_full() {
                let track = self.track(&mut rings);
                self.outlet.send(vec![track]);
                continue;
            }
            // If there are samples, the last of them gives the time.
            if ready != SAMPLES {
                batch.read_at = machine::monotonic_nanos();
            }
            let (unwinder, live, kept) = (&mut self.unwinder, &mut self.live, &mut batch.kept);
            // What happened to processes on other CPUs a moment ago is not known on this one. Waiting for it would be
            // too late for the stack; unknown code ends the stack.
            let mut latest = batch.read_at;
            rings.samples.for_each(|record| {
                let live = is_prompt.then_some(&mut *live);
                let time = unwinder.keep(record, kept, u64::MAX, live);
                latest = time.map_or(latest, |time| time.max(latest));
            });
            batch.read_at = latest;
            // The collector is woken once for many samples; only unwinding is urgent.
            if is_last || ready & NUDGE != 0 || batch.is_due(longest) {
                self.hand_over(&mut batch, &mut rings);
            }
            if is_last {
                return (rings, machine::thread_cpu_nanos());
            }
        }
    }

    fn hand_over(&mut self, batch: &mut Batch, rings: &mut CpuRings) {
        let kept = std::mem::replace(&mut batch.kept, self.outlet.buffers());
        let samples = self.outlet.chunk(self.at * RINGS + 1, batch.read_at, kept);
        let track = self.track(rings);
        batch.since = track.read_at;
        let stacks = call_stacks(rings, self.at, &self.outlet, &mut self.unwinder, track.read_at);
        self.outlet.send(vec![track, samples, stacks]);
    }

    fn track(&mut self, rings: &mut CpuRings) -> Chunk {
        let read_at = machine::monotonic_nanos();
        let mut kept = self.outlet.buffers();
        rings.track.for_each(|record| self.unwinder.keep_track(record, &mut kept));
        self.outlet.chunk(self.at * RINGS, read_at, kept)
    }
}
