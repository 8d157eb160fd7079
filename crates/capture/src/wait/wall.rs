//! The wall clock: where all threads are, running or not.
//!
//! Threads are looked at many times a second. One that has used CPU time since the last look is asked for its stack; one
//! that has not is where it was, and is booked there without being disturbed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flamelet_profile::Profile;

use super::profile::{Mapped, add_stack};
use super::stacks;
use crate::threads::{Listed, Listing, Tid};
use crate::{Error, ErrorKind, Result, clock, own_threads};

/// The most threads that are asked for their stacks at one look; further ones wait for the next.
const MOST_ASKED: usize = 16;

/// More different stacks than this are not kept.
const MOST_STACKS: usize = 50_000;

/// A thread that did not answer, because it blocks signals for instance, is asked again after so many looks.
const ASK_AGAIN_AFTER: u32 = 64;

/// A thread that used no more CPU time than this since the last look has not left its system call.
const STILL: u64 = 10_000;

/// A wall clock profile that is being taken. Call [`WallClock::look`] again and again.
pub struct WallClock {
    listing: Listing,
    listed: Vec<Listed>,
    threads: HashMap<Listed, Seen>,
    rows: HashMap<Row, (u64, u64)>,
    started: Instant,
    lost: u64,
}

/// What is known about a thread.
struct Seen {
    name: String,
    cpu: u64,
    at: u64,
    stack: Vec<u64>,
    is_running: bool,
    /// How many looks it is not asked, because it did not answer.
    silent_for: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Row {
    stack: Vec<u64>,
    thread: String,
    is_running: bool,
}

impl WallClock {
    /// Starts to look at all threads.
    pub fn start() -> Result<Self> {
        stacks::prepare()?;
        let listing = Listing::open();
        let listing = listing
            .map_err(|error| Error::new(ErrorKind::Denied, format!("cannot list the threads: {error}")))?;
        let started = Instant::now();
        let (threads, rows) = (HashMap::new(), HashMap::new());
        Ok(Self { listing, listed: Vec::new(), threads, rows, started, lost: 0 })
    }

    /// Looks at all threads once, and books the time since the last look.
    pub fn look(&mut self) {
        self.listing.read(&mut self.listed);
        let (mut asked, now) = (0, clock::monotonic_nanos());
        for at in 0..self.listed.len() {
            let listed = self.listed[at];
            let cpu = clock::read(thread_clock(listed.tid));
            let still = self.threads.get(&listed).filter(|seen| cpu.saturating_sub(seen.cpu) <= STILL);
            let is_known = still.is_some_and(|seen| !seen.stack.is_empty());
            if !is_known && asked < MOST_ASKED && self.may_answer(listed) {
                asked += 1;
                self.ask(listed, cpu, now);
            }
            self.book(listed, cpu, now);
        }
        let listed = &self.listed;
        self.threads.retain(|thread, _| listed.binary_search(thread).is_ok());
    }

    /// Returns whether a thread is worth asking: not if it did not answer of late.
    fn may_answer(&mut self, thread: Listed) -> bool {
        let Some(seen) = self.threads.get_mut(&thread) else { return true };
        seen.silent_for = seen.silent_for.saturating_sub(1);
        seen.silent_for == 0
    }

    /// Asks a thread for its stack.
    fn ask(&mut self, thread: Listed, cpu: u64, now: u64) {
        let seen = self.threads.entry(thread).or_insert_with(|| Seen {
            name: name_of(thread.tid),
            cpu,
            at: now,
            stack: Vec::new(),
            is_running: false,
            silent_for: 0,
        });
        // They answer to no signal.
        if seen.name.starts_with(own_threads::PREFIX) {
            return;
        }
        // A thread that does not answer keeps its last stack: most likely it is there.
        let mut frames = Vec::new();
        match stacks::take(thread.tid, &mut frames) {
            true => seen.stack = frames,
            false => seen.silent_for = ASK_AGAIN_AFTER,
        }
    }

    /// Books the time of a thread since it was last booked under the stack that it has now.
    fn book(&mut self, thread: Listed, cpu: u64, now: u64) {
        let Some(seen) = self.threads.get_mut(&thread) else { return };
        if seen.name.starts_with(own_threads::PREFIX) {
            return;
        }
        let used = cpu.saturating_sub(seen.cpu);
        let passed = now.saturating_sub(seen.at);
        seen.is_running = used * 2 > passed;
        // The handler itself uses some time, which must not look like work at the next look.
        seen.cpu = clock::read(thread_clock(thread.tid));
        seen.at = now;
        if passed == 0 {
            return;
        }
        let row = Row { stack: seen.stack.clone(), thread: seen.name.clone(), is_running: seen.is_running };
        if self.rows.len() >= MOST_STACKS && !self.rows.contains_key(&row) {
            self.lost += 1;
            return;
        }
        let (count, nanos) = self.rows.entry(row).or_default();
        *count += 1;
        *nanos += passed;
    }

    /// Ends it. `is_idle` says of a stack, leaf first, whether its thread has nothing to do; such threads are set aside,
    /// and a comment counts them.
    pub fn finish(self, is_idle: impl Fn(&[u64]) -> bool) -> Profile {
        let mut mapped = Mapped::new(&[("samples", "count"), ("wall", "nanoseconds")]);
        mapped.builder().set_period("wall", "nanoseconds", 1);
        let duration = self.started.elapsed();
        mapped.builder().header_mut().duration_nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let (mut idle, mut idle_nanos) = (0u64, 0u64);
        for (row, (count, nanos)) in &self.rows {
            if !row.is_running && is_idle(&row.stack) {
                idle += count;
                idle_nanos += nanos;
                continue;
            }
            let stack = add_stack(&mut mapped, &row.stack, "[no answer]");
            let builder = mapped.builder();
            let state = if row.is_running { "running" } else { "waiting" };
            let labels = [builder.text_label("thread", &row.thread), builder.text_label("state", state)];
            let labels = builder.labels(&labels);
            let value = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            builder.merge_sample(stack, labels, &[value(*count), value(*nanos)]);
        }
        let seconds = Duration::from_nanos(idle_nanos).as_secs_f64();
        mapped
            .builder()
            .comment(&format!("flamelet: {idle} samples of idle threads set aside, {seconds:.3} s"));
        if self.lost > 0 {
            mapped.builder().comment(&format!("flamelet: {} samples lost: too many stacks", self.lost));
        }
        mapped.finish()
    }

    /// Returns all stacks that were seen.
    pub fn stacks(&self) -> impl Iterator<Item = &[u64]> {
        self.rows.keys().map(|row| &row.stack[..])
    }
}

/// Returns the clock of a thread's CPU time.
fn thread_clock(thread: Tid) -> libc::clockid_t {
    (!thread << 3) | 6
}

fn name_of(thread: Tid) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
