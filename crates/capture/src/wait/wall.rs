//! The wall clock: where all threads are, running or not.
//!
//! Threads are looked at many times a second. One that has used CPU time since the last look is asked for its stack; one
//! that has not is where it was, and is booked there without being disturbed.

use std::time::{Duration, Instant};

use flamelet_profile::{Label, Profile, ProfileBuilder};
use rustc_hash::FxHashMap;

use super::calls::SystemCall;
use super::moments::Moments;
use super::profile::{Mapped, add_stack};
use super::stacks;
use crate::labels::LabelSet;
use crate::threads::{Listed, Listing, Tid};
use crate::{Error, ErrorKind, Result, clock, own_threads};

/// The most threads that are asked for their stacks at one look; further ones wait for the next.
const MOST_ASKED: usize = 16;

/// More different stacks than this are not kept.
const MOST_STACKS: usize = 50_000;

/// A thread that did not answer, because it blocks signals for instance, is asked again after this many looks.
const ASK_AGAIN_AFTER: u32 = 64;

/// How long a thread must not have run, in looks, to be looked at only at every n-th look, and n; the longest first.
const STILL: [(u64, u64); 2] = [(64, 16), (8, 4)];

/// Listing the threads takes at most one part in this many of the time.
const LIST_RARELY: u64 = 500;

/// A thread that used no more CPU time than this, in nanoseconds, since the last look has not left its system call.
const UNMOVED: u64 = 10_000;

/// The place of the time among the values of a sample.
const WALL: usize = 1;

/// A wall clock profile that is being taken. Call [`WallClock::look`] again and again.
pub struct WallClock {
    listing: Listing,
    listed: Vec<Listed>,
    /// How many looks there were.
    looks: u64,
    /// When they were listed, and how long that took: the more threads, the rarer.
    listed_at: u64,
    listing_nanos: u64,
    threads: FxHashMap<Listed, Seen>,
    rows: Vec<Booked>,
    /// The places of rows.
    places: FxHashMap<Row, usize>,
    started: Instant,
    /// The same on the monotonic clock.
    start: u64,
    moments: Moments,
    lost: u64,
}

/// A row, how often it was seen, and for how many nanoseconds.
struct Booked {
    row: Row,
    count: u64,
    nanos: u64,
}

/// What is known about a thread.
struct Seen {
    name: String,
    cpu: u64,
    at: u64,
    /// The look at which it was last booked, and the one since which it has not run.
    look: u64,
    still_since: u64,
    stack: Vec<u64>,
    labels: LabelSet,
    /// The system call that it is in; the outer `None` if it was not queried since the thread ran.
    call: Option<Option<SystemCall>>,
    is_running: bool,
    /// The row that it was booked to, as long as nothing of that has changed.
    place: Option<usize>,
    /// Its last moment on the timeline.
    moment: Option<usize>,
    /// How many looks it is not asked, because it did not answer.
    silent_for: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Row {
    stack: Vec<u64>,
    labels: LabelSet,
    thread: String,
    call: Option<SystemCall>,
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
        Ok(Self {
            listing,
            listed: Vec::new(),
            looks: 0,
            listed_at: 0,
            listing_nanos: 0,
            threads: FxHashMap::default(),
            rows: Vec::new(),
            places: FxHashMap::default(),
            started,
            start: clock::monotonic_nanos(),
            moments: Moments::default(),
            lost: 0,
        })
    }

    /// Looks at all threads once, and books the time since the last look.
    pub fn look(&mut self) {
        self.looks += 1;
        self.list();
        let (mut asked, now) = (0, clock::monotonic_nanos());
        for at in 0..self.listed.len() {
            let listed = self.listed[at];
            if self.threads.get(&listed).is_some_and(|seen| seen.may_wait(self.looks)) {
                continue;
            }
            let cpu = clock::read(thread_clock(listed.tid));
            // It has ended since it was listed.
            if cpu == 0 {
                continue;
            }
            let still = self.threads.get(&listed).filter(|seen| cpu.saturating_sub(seen.cpu) <= UNMOVED);
            let is_known = still.is_some_and(|seen| !seen.stack.is_empty());
            if is_known {
                self.ask_call(listed);
            }
            if !is_known && asked < MOST_ASKED && self.may_answer(listed) {
                asked += 1;
                self.book_until_it_ran(listed, now);
                self.ask(listed, cpu, now);
                self.book(listed, cpu, now, self.looks);
                self.forgive_handler(listed);
            } else {
                self.book(listed, cpu, now, self.looks);
            }
        }
    }

    /// Lists the threads, unless that takes too long, in which case it waits for a later look.
    fn list(&mut self) {
        let now = clock::monotonic_nanos();
        if now.saturating_sub(self.listed_at) < self.listing_nanos * LIST_RARELY {
            return;
        }
        self.listing.read(&mut self.listed);
        self.listed_at = clock::monotonic_nanos();
        self.listing_nanos = self.listed_at - now;
        let listed = &self.listed;
        self.threads.retain(|thread, _| listed.binary_search(thread).is_ok());
    }

    /// Returns whether a thread is worth asking: not if it recently failed to answer.
    fn may_answer(&mut self, thread: Listed) -> bool {
        let Some(seen) = self.threads.get_mut(&thread) else { return true };
        seen.silent_for = seen.silent_for.saturating_sub(1);
        seen.silent_for == 0
    }

    /// Asks the kernel for the system call of a thread that has not run since the last look. Not sooner: a thread that was
    /// just asked for its stack runs.
    fn ask_call(&mut self, thread: Listed) {
        if let Some(seen) = self.threads.get_mut(&thread).filter(|seen| seen.call.is_none()) {
            (seen.call, seen.place) = (Some(SystemCall::of(thread.tid)), None);
        }
    }

    /// Asks a thread for its stack.
    fn ask(&mut self, thread: Listed, cpu: u64, now: u64) {
        let seen = self.threads.entry(thread).or_insert_with(|| Seen {
            name: name_of(thread.tid),
            cpu,
            at: now,
            look: self.looks,
            still_since: self.looks,
            stack: Vec::new(),
            labels: LabelSet::EMPTY,
            call: None,
            is_running: false,
            place: None,
            moment: None,
            silent_for: 0,
        });
        // They answer to no signal.
        if seen.name.starts_with(own_threads::PREFIX) {
            return;
        }
        // A thread that does not answer keeps its last stack: most likely it is there.
        let mut frames = Vec::new();
        (seen.call, seen.place) = (None, None);
        match stacks::take(thread.tid, &mut frames) {
            Some(labels) => (seen.stack, seen.labels) = (frames, labels),
            None => seen.silent_for = ASK_AGAIN_AFTER,
        }
    }

    /// Books the time of a thread that was not looked at for a while, and has run since, to where it was: all but that of one
    /// look, in which it may have begun to run.
    fn book_until_it_ran(&mut self, thread: Listed, now: u64) {
        let Some(seen) = self.threads.get(&thread) else { return };
        let (looks, passed) = (self.looks - seen.look, now.saturating_sub(seen.at));
        if looks > 1 && seen.place.is_some() {
            let (cpu, until) = (seen.cpu, seen.at + passed / looks * (looks - 1));
            self.book(thread, cpu, until, self.looks - 1);
        }
    }

    /// The handler itself uses some time, which must not look like work at the next look.
    fn forgive_handler(&mut self, thread: Listed) {
        if let Some(seen) = self.threads.get_mut(&thread) {
            seen.cpu = clock::read(thread_clock(thread.tid));
        }
    }

    /// Books the time of a thread since it was last booked, until `now`, the time of this `look`, under the stack that it has.
    fn book(&mut self, thread: Listed, cpu: u64, now: u64, look: u64) {
        let Some(seen) = self.threads.get_mut(&thread) else { return };
        if seen.name.starts_with(own_threads::PREFIX) {
            return;
        }
        let used = cpu.saturating_sub(seen.cpu);
        let passed = now.saturating_sub(seen.at);
        let looks = std::mem::replace(&mut seen.look, look).abs_diff(look);
        if used > UNMOVED {
            seen.still_since = self.looks;
        }
        let is_running = used * 2 > passed;
        if is_running != seen.is_running {
            (seen.is_running, seen.place) = (is_running, None);
        }
        (seen.cpu, seen.at) = (cpu, now);
        if passed == 0 {
            return;
        }
        if seen.place.is_none() {
            seen.place = place(&mut self.rows, &mut self.places, seen);
        }
        match seen.place.and_then(|at| self.rows.get_mut(at)) {
            Some(booked) => {
                booked.count += looks;
                booked.nanos += passed;
                let (row, last) = (seen.place.unwrap_or_default(), seen.moment);
                seen.moment = self.moments.add(
                    thread.tid,
                    &seen.name,
                    row,
                    now - passed..now,
                    last.filter(|_| !is_running),
                );
            }
            None => self.lost += 1,
        }
    }

    /// Ends it. `is_idle` says of a stack, leaf first, whether its thread has nothing to do; such threads are set aside,
    /// and a comment counts them.
    pub fn finish(mut self, is_idle: impl Fn(&[u64]) -> bool) -> Profile {
        // Also for threads that were not looked at recently.
        self.threads.values_mut().for_each(|seen| seen.still_since = self.looks);
        self.look();
        let mut mapped = Mapped::new(&[("samples", "count"), ("wall", "nanoseconds")]);
        mapped.builder().set_period("wall", "nanoseconds", 1);
        let duration = self.started.elapsed();
        mapped.builder().header_mut().duration_nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let (mut idle, mut idle_nanos) = (0u64, 0u64);
        // The samples of the rows; idle threads have none.
        let mut samples = Vec::with_capacity(self.rows.len());
        for Booked { row, count, nanos } in &self.rows {
            if !row.is_running && is_idle(&row.stack) {
                idle += count;
                idle_nanos += nanos;
                samples.push(None);
                continue;
            }
            let stack = add_stack(&mut mapped, &row.stack, "[no answer]");
            let builder = mapped.builder();
            let labels = row.labels(builder);
            let labels = builder.labels(&labels);
            let value = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let sample = builder.merge_sample(stack, labels, &[value(*count), value(*nanos)]);
            samples.push(u32::try_from(sample).ok());
        }
        let seconds = Duration::from_nanos(idle_nanos).as_secs_f64();
        mapped
            .builder()
            .comment(&format!("flamelet: {idle} samples of idle threads set aside, {seconds:.3} s"));
        if self.lost > 0 {
            mapped.builder().comment(&format!("flamelet: {} samples lost: too many stacks", self.lost));
        }
        let timeline = self.moments.timeline(mapped.builder(), self.start, &samples, WALL);
        mapped.finish_with(timeline)
    }

    /// Returns all stacks that were seen.
    pub fn stacks(&self) -> impl Iterator<Item = &[u64]> {
        self.rows.iter().map(|booked| &booked.row.stack[..])
    }
}

impl Row {
    /// Returns its labels: what the thread was working on, which thread it was, and what it did.
    fn labels(&self, builder: &mut ProfileBuilder) -> Vec<Label> {
        let own = self.labels.iter().filter(|(_, value)| !value.is_empty());
        let mut labels: Vec<Label> = own.map(|(name, value)| builder.text_label(name, value)).collect();
        let (state, part) = if self.is_running { ("running", "cpu") } else { ("waiting", "blocked") };
        if self.labels.iter().any(|(name, _)| name == "route") {
            labels.push(builder.text_label("part", part));
        }
        labels.extend([builder.text_label("thread", &self.thread), builder.text_label("state", state)]);
        labels.extend(self.call.map(|call| builder.text_label("syscall", &call.name())));
        labels
    }
}

impl Seen {
    /// Returns whether a thread need not be looked at: it has not run for long, and others are looked at in its place.
    fn may_wait(&self, look: u64) -> bool {
        let still = look - self.still_since;
        let rarely = STILL.into_iter().find(|(longer, _)| still > *longer);
        rarely.is_some_and(|(_, every)| look - self.look < every)
    }
}

/// Returns the row for what is known about a thread; `None` if there are too many rows.
#[allow(
    clippy::mutable_key_type,
    reason = "labels are compared and hashed by their number, which never changes"
)]
fn place(rows: &mut Vec<Booked>, places: &mut FxHashMap<Row, usize>, seen: &Seen) -> Option<usize> {
    let row = Row {
        stack: seen.stack.clone(),
        labels: seen.labels.clone(),
        thread: seen.name.clone(),
        call: seen.call.flatten().filter(|_| !seen.is_running),
        is_running: seen.is_running,
    };
    if let Some(&known) = places.get(&row) {
        return Some(known);
    }
    if rows.len() >= MOST_STACKS {
        return None;
    }
    rows.push(Booked { row: row.clone(), count: 0, nanos: 0 });
    places.insert(row, rows.len() - 1);
    Some(rows.len() - 1)
}

/// Returns the clock of a thread's CPU time.
pub(super) fn thread_clock(thread: Tid) -> libc::clockid_t {
    (!thread << 3) | 6
}

/// Returns the name of a thread of this process; empty if it has ended.
pub(super) fn name_of(thread: Tid) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
