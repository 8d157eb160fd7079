//! A thread pinned to each CPU, which takes each sample as soon as it is written.
//!
//! It preempts the thread that was just sampled, so that thread stands still where the sample says, and what
//! its stack holds beyond the dump can be read live. A reader that comes late reads another call's frames: a
//! sample older than [`FRESH`] is therefore left as it is, cut.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use flamelet_unwind::{Dump, End, Modules, walk};
use rustc_hash::FxHashMap;

use super::{Outlet, Unwound, UnwoundStack, nap};
use crate::Result;
use crate::collect::SharedModules;
use crate::plan::Source;
use crate::session::{CpuRings, Origin, Origins};
use crate::sys::machine::{self, Bell};
use crate::sys::memory;
use crate::sys::sched::{self, Urgency};
use crate::wire::{Raw, RegisterMask, Sample, UserSide};

/// How old a sample may be when its stack is read.
const FRESH: u64 = 150_000;

/// The running threads.
pub(crate) struct EagerDrain {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<u64>>,
    urgency: Arc<Mutex<Option<Urgency>>>,
}

impl EagerDrain {
    pub(crate) fn start(
        rings: Vec<CpuRings>,
        mut outlets: Vec<Outlet>,
        modules: &SharedModules,
        origins: &Origins,
    ) -> Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let urgency = Arc::new(Mutex::new(None));
        let mut threads = Vec::new();
        for (at, cpu) in rings.into_iter().enumerate() {
            let Some(outlet) = outlets.pop() else { break };
            let worker = Worker {
                bell: bell.clone(),
                outlet,
                at,
                modules: modules.clone(),
                origins: origins.clone(),
                known: FxHashMap::default(),
                live: LiveStack::default(),
            };
            let urgency = urgency.clone();
            let thread = std::thread::Builder::new().name(format!("flamelet-cpu{}", cpu.cpu));
            threads.push(thread.spawn(move || {
                let _ = sched::pin_to(cpu.cpu);
                let reached = sched::run_first();
                *urgency.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
                worker.run(cpu)
            })?);
        }
        Ok(Self { bell, threads, urgency })
    }

    /// How the threads got to run early, once they do.
    pub(crate) fn urgency(&self) -> Option<Urgency> {
        *self.urgency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the rings once more and ends. Returns the CPU time that was used.
    pub(crate) fn finish(self) -> u64 {
        self.bell.ring();
        self.threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    }
}

/// What was taken out of a ring and not handed over yet.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    unwound: Unwound,
    read_at: u64,
    since: u64,
    /// How many were handed over before.
    round: u32,
}

impl Batch {
    fn is_due(&self) -> bool {
        const LARGE: usize = 2 << 20;
        self.bytes.len() >= LARGE || u128::from(self.read_at - self.since) >= nap(self.round).as_nanos()
    }
}

struct Worker {
    bell: Arc<Bell>,
    outlet: Outlet,
    at: usize,
    modules: SharedModules,
    origins: Origins,
    known: FxHashMap<u64, Origin>,
    live: LiveStack,
}

impl Worker {
    fn run(mut self, mut rings: CpuRings) -> u64 {
        let fds = [self.bell.fd(), rings.samples.fd(), rings.track.fd()];
        let mut batch = Batch::default();
        loop {
            let is_last = match machine::poll(&fds, nap(batch.round)) {
                Ok(ready) => ready[0].readable,
                Err(_) => true,
            };
            batch.read_at = machine::monotonic_nanos();
            let before = batch.bytes.len();
            rings.samples.drain(&mut batch.bytes);
            self.unwind(&batch.bytes, before, &mut batch.unwound);
            // The collector is woken for many samples at a time; only unwinding is urgent.
            if is_last || batch.is_due() {
                self.hand_over(&mut batch, &mut rings);
            }
            if is_last {
                return machine::thread_cpu_nanos();
            }
        }
    }

    fn hand_over(&self, batch: &mut Batch, rings: &mut CpuRings) {
        let Batch { bytes, unwound, read_at, round, .. } = std::mem::take(batch);
        self.outlet.send(self.at * 2 + 1, read_at, bytes, unwound);
        let read_at = machine::monotonic_nanos();
        let mut bytes = self.outlet.buffer();
        rings.track.drain(&mut bytes);
        self.outlet.send(self.at * 2, read_at, bytes, Unwound::default());
        batch.bytes = self.outlet.buffer();
        batch.since = read_at;
        batch.round = round.saturating_add(1);
    }

    /// Unwinds the samples that are fresh.
    fn unwind(&mut self, bytes: &[u8], mut at: usize, unwound: &mut Unwound) {
        while let Some((record, length)) = bytes.get(at..).and_then(Raw::first) {
            let sample = record.is_sample().then(|| self.cpu_sample(&record)).flatten();
            if let Some(sample) = sample
                && machine::monotonic_nanos().saturating_sub(sample.time) < FRESH
                && let Some(user) = sample.user
                && let Some(modules) = self.modules_of(sample.thread.pid)
            {
                self.unwind_one(&modules, &sample, &user, at as u32, unwound);
            }
            at += length;
        }
    }

    fn cpu_sample<'a>(&mut self, record: &Raw<'a>) -> Option<Sample<'a>> {
        let id = record.identifier()?;
        if !self.known.contains_key(&id) {
            // Only opened events are new, so this is rare; a writer that holds the lock makes us skip.
            self.known = self.origins.try_lock().ok()?.clone();
        }
        let origin = self.known.get(&id)?;
        (origin.source == Source::Cpu).then(|| record.sample(origin.sample_type, RegisterMask::NATIVE))?
    }

    /// Never waits: the collector may hold the lock, and it may be what this thread just preempted.
    fn modules_of(&self, pid: u32) -> Option<Arc<Modules>> {
        self.modules.try_read().ok()?.get(&pid).cloned()
    }

    fn unwind_one(
        &mut self,
        modules: &Modules,
        sample: &Sample<'_>,
        user: &UserSide<'_>,
        record: u32,
        into: &mut Unwound,
    ) {
        let first = into.frames.len();
        into.frames.resize(first + flamelet_unwind::MAX_DEPTH, 0);
        self.live.begin(sample.thread.tid, sample.time);
        let live = &mut self.live;
        let mut stack = Dump::with_beyond(user.registers.sp, user.stack, |address| live.read(address));
        let walked = walk(modules, &user.registers, &mut stack, &mut into.frames[first..]);
        into.frames.truncate(first + walked.depth);
        // What was read too late may belong to another call, and what is not whole may lack a module that
        // the collector hears of later: it unwinds the dump then.
        if self.live.is_used && !self.live.is_fresh() || walked.end != End::Rooted {
            into.frames.truncate(first);
            return;
        }
        let (first, depth) = (first as u32, walked.depth as u32);
        into.stacks.push(UnwoundStack { record, first, depth, end: walked.end });
    }
}

const PAGE: u64 = 4096;
/// Pages of one stack that are kept at a time.
const MOST_PAGES: usize = 16;

/// Reads the stack of a thread page by page, as long as the sample is fresh.
struct LiveStack {
    tid: u32,
    sampled_at: u64,
    is_used: bool,
    used_pages: usize,
    addresses: [u64; MOST_PAGES],
    pages: Box<[[u8; PAGE as usize]; MOST_PAGES]>,
}

impl Default for LiveStack {
    fn default() -> Self {
        Self {
            tid: 0,
            sampled_at: 0,
            is_used: false,
            used_pages: 0,
            addresses: [0; MOST_PAGES],
            pages: Box::new([[0; PAGE as usize]; MOST_PAGES]),
        }
    }
}

impl LiveStack {
    fn begin(&mut self, tid: u32, sampled_at: u64) {
        (self.tid, self.sampled_at, self.is_used, self.used_pages) = (tid, sampled_at, false, 0);
    }

    fn is_fresh(&self) -> bool {
        machine::monotonic_nanos().saturating_sub(self.sampled_at) < FRESH
    }

    fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        let start = address & !(PAGE - 1);
        let page = match self.addresses[..self.used_pages].iter().position(|&known| known == start) {
            Some(page) => page,
            None => self.fetch(start)?,
        };
        crate::wire::u64_at(&self.pages[page], (address - start) as usize)
    }

    fn fetch(&mut self, start: u64) -> Option<usize> {
        if self.used_pages == MOST_PAGES || !self.is_fresh() {
            return None;
        }
        self.is_used = true;
        let page = self.used_pages;
        let length = memory::read(self.tid, start, &mut self.pages[page]).ok()?;
        if length < PAGE as usize {
            return None;
        }
        self.addresses[page] = start;
        self.used_pages += 1;
        Some(page)
    }
}
