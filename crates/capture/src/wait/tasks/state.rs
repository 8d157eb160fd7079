//! What is known about a task.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use super::super::delays::{ContextNumber, Delays, StackNumber, Weight};
use super::awaits;
use super::name::Name;
use super::set_once::SetOnce;
use crate::clock;
use crate::labels::LabelSet;

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being polled.
    Running,
    /// Woken or not polled yet, and waiting for the executor.
    Runnable,
    /// Waiting to be woken.
    Awaiting,
}

impl Phase {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Awaiting => "awaiting",
        }
    }
}

/// How a task's time was spent, in nanoseconds. The four parts add up to `wall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// From its creation until now, or until its end.
    pub wall: u64,
    /// On the CPU.
    pub cpu: u64,
    /// In a poll, but not on the CPU: waiting for a lock or a system call, or preempted.
    pub blocked: u64,
    /// Waiting to be woken.
    pub awaiting: u64,
    /// Woken and waiting to be polled.
    pub runnable: u64,
}

/// A task at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// Unique in this process. A task gets its number when somebody first asks for it, beginning with 1.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: LabelSet,
    /// What it is doing.
    pub phase: Phase,
    /// For how many nanoseconds it has been doing that.
    pub phase_nanos: u64,
    /// Its age in nanoseconds.
    pub age_nanos: u64,
    /// How often it was polled.
    pub polls: u64,
    /// Where it awaits, leaf first; empty if its last poll was not sampled.
    pub stack: Vec<u64>,
    /// Where it was made, leaf first.
    pub spawned: Vec<u64>,
}

/// Where a task awaits, and with which labels: those of the innermost scope, which a span may have added to the task's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AwaitPoint {
    pub(super) stack: StackNumber,
    pub(super) context: ContextNumber,
    /// The same with the label of slow tasks; none if they are the task's own labels, or if it cannot be slow.
    pub(super) slow: ContextNumber,
    /// How many awaits it stands for; 0 if the task only awaits another one that it polls, which counts the time itself.
    pub(super) weight: u64,
}

impl AwaitPoint {
    /// Unknown: the poll was not sampled, or it was the last one.
    pub(super) const NONE: Self =
        Self { stack: StackNumber::NONE, context: ContextNumber::NONE, slow: ContextNumber::NONE, weight: 0 };
}

/// The state of a task. The thread that polls it writes, wakers mark it as woken, and anyone reads.
///
/// It is all that is allocated for a task, as long as its executor does not change: threads that pass tasks to each other
/// would wait for the allocator's locks.
pub(super) struct State {
    /// 0 until somebody asks for it, so that threads that make tasks share no counter.
    id: AtomicU64,
    pub(super) name: Name,
    pub(super) labels: LabelSet,
    /// The waker that the executor first polled it with.
    pub(super) executor: SetOnce<Waker>,
    spawned: StackNumber,
    born: u64,
    /// At this age, in nanoseconds, it is slower than nearly all like it.
    slow_after: u64,
    is_running: AtomicBool,
    /// When the last poll began or ended.
    changed: AtomicU64,
    /// When it was woken since the last poll began; 0 if it was not.
    woken: AtomicU64,
    polls: AtomicU64,
    /// Where it awaits, as an [`AwaitPoint`]; no stack if the last poll was not sampled.
    stack: AtomicU32,
    context: AtomicU32,
    slow: AtomicU32,
    weight: AtomicU64,
    cpu: AtomicU64,
    blocked: AtomicU64,
    awaiting: AtomicU64,
    runnable: AtomicU64,
}

impl State {
    #[inline]
    pub(super) fn new(born: u64, name: &str, labels: LabelSet, spawned: StackNumber) -> Self {
        Self {
            id: AtomicU64::new(0),
            name: Name::new(name),
            labels,
            executor: SetOnce::new(),
            spawned,
            born,
            slow_after: u64::MAX,
            is_running: AtomicBool::new(false),
            changed: AtomicU64::new(born),
            // A new task waits to be polled.
            woken: AtomicU64::new(born),
            polls: AtomicU64::new(0),
            stack: AtomicU32::new(0),
            context: AtomicU32::new(0),
            slow: AtomicU32::new(0),
            weight: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            awaiting: AtomicU64::new(0),
            runnable: AtomicU64::new(0),
        }
    }

    pub(super) fn id(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        match self.id.load(Ordering::Relaxed) {
            0 => {
                let id = NEXT.fetch_add(1, Ordering::Relaxed);
                let known = self.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
                known.map_or_else(|first| first, |_| id)
            }
            id => id,
        }
    }

    /// Returns when it was made.
    pub(super) fn born(&self) -> u64 {
        self.born
    }

    /// Returns the context of an await with these labels, and the one that it has if the task turns out to be slow.
    pub(super) fn contexts(&self, awaits: &Delays, labels: &LabelSet) -> (ContextNumber, ContextNumber) {
        let slow = match self.slow_after == u64::MAX || *labels == self.labels {
            true => ContextNumber::NONE,
            false => awaits.context(&labels.with([SLOW])),
        };
        (awaits.context(labels), slow)
    }

    /// Marks awaits that end when the task is older than this: they are why it is slow.
    #[must_use]
    #[inline]
    pub(super) fn slow_after(mut self, nanos: u64) -> Self {
        self.slow_after = nanos;
        self
    }

    /// Notes that the task was woken; the first time since its poll counts. Of several threads that wake it at once, any may
    /// be the first.
    pub(super) fn wake(&self) {
        if self.woken.load(Ordering::Relaxed) == 0 {
            self.woken.store(clock::quick_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether a poll that begins `now` is the first one, or follows a long wait.
    pub(super) fn is_polled_seldom(&self, now: u64) -> bool {
        const LONG: u64 = 1_000_000;
        self.polls.load(Ordering::Relaxed) == 0
            || now.saturating_sub(self.changed.load(Ordering::Relaxed)) >= LONG
    }

    /// Notes that a poll begins `now`, and books the time since the last one.
    pub(super) fn begin_poll(&self, now: u64) {
        let now = now.max(self.changed.load(Ordering::Relaxed));
        let woken = self.woken.load(Ordering::Relaxed);
        // A wake-up that comes at this moment counts for the time after the poll. (Only of two that come at this moment, and both
        // before any other, may one be forgotten here: what it makes runnable is then called awaiting.)
        if woken != 0 {
            self.woken.store(0, Ordering::Relaxed);
        }
        self.book_wait(now, woken);
        self.changed.store(now, Ordering::Relaxed);
        self.is_running.store(true, Ordering::Relaxed);
        add(&self.polls, 1);
    }

    /// Books the time since the last poll, until `now`, which is not before: awaiting until it was woken, then runnable.
    fn book_wait(&self, now: u64, woken: u64) {
        let since = self.changed.load(Ordering::Relaxed);
        // A poll without a wake-up ends the wait as well.
        let end = if woken == 0 { now } else { woken.clamp(since, now) };
        add(&self.awaiting, end - since);
        add(&self.runnable, now - end);
        let stack = StackNumber::from_raw(self.stack.load(Ordering::Relaxed));
        self.stack.store(0, Ordering::Relaxed);
        let weight = self.weight.load(Ordering::Relaxed);
        if stack != StackNumber::NONE
            && weight > 0
            && let Some(awaits) = awaits()
        {
            let is_slow = end.saturating_sub(self.born) > self.slow_after;
            let context = if is_slow { &self.slow } else { &self.context };
            let context = match ContextNumber::from_raw(context.load(Ordering::Relaxed)) {
                ContextNumber::NONE if is_slow => awaits.context(&self.labels.with([SLOW])),
                known => known,
            };
            awaits.add_in_context(stack, StackNumber::NONE, context, Weight::times(end - since, weight));
        }
    }

    /// Notes that a poll ends `now`, after this much time off the CPU, and where the task awaits.
    pub(super) fn end_poll(&self, now: u64, blocked: u64, point: AwaitPoint) {
        let began = self.changed.load(Ordering::Relaxed);
        let now = now.max(began);
        let running = now - began;
        let blocked = blocked.min(running);
        add(&self.cpu, running - blocked);
        add(&self.blocked, blocked);
        self.weight.store(point.weight, Ordering::Relaxed);
        self.context.store(point.context.raw(), Ordering::Relaxed);
        self.slow.store(point.slow.raw(), Ordering::Relaxed);
        self.stack.store(point.stack.raw(), Ordering::Relaxed);
        self.changed.store(now, Ordering::Relaxed);
        self.is_running.store(false, Ordering::Relaxed);
    }

    /// Books an await that will not end, because the task is dropped before its future has ended.
    pub(super) fn end(&self) {
        if !self.is_running.load(Ordering::Relaxed) {
            let now = clock::quick_nanos().max(self.changed.load(Ordering::Relaxed));
            self.book_wait(now, self.woken.load(Ordering::Relaxed));
            self.changed.store(now, Ordering::Relaxed);
        }
    }

    /// Returns how its time was spent until its last poll began or ended.
    pub(super) fn times(&self) -> Times {
        let get = |part: &AtomicU64| part.load(Ordering::Relaxed);
        Times {
            wall: get(&self.changed).saturating_sub(self.born),
            cpu: get(&self.cpu),
            blocked: get(&self.blocked),
            awaiting: get(&self.awaiting),
            runnable: get(&self.runnable),
        }
    }

    pub(super) fn info(&self, now: u64) -> Info {
        let (changed, woken) = (self.changed.load(Ordering::Relaxed), self.woken.load(Ordering::Relaxed));
        let (phase, since) = match (self.is_running.load(Ordering::Relaxed), woken) {
            (true, _) => (Phase::Running, changed),
            (false, 0) => (Phase::Awaiting, changed),
            (false, woken) => (Phase::Runnable, woken.max(changed)),
        };
        let frames = |stack| awaits().map(|awaits| awaits.frames(stack)).unwrap_or_default();
        Info {
            id: self.id(),
            name: self.name.text().to_owned(),
            labels: self.labels.clone(),
            phase,
            phase_nanos: now.saturating_sub(since),
            age_nanos: now.saturating_sub(self.born),
            polls: self.polls.load(Ordering::Relaxed),
            stack: frames(StackNumber::from_raw(self.stack.load(Ordering::Relaxed))),
            spawned: frames(self.spawned),
        }
    }
}

/// The label of awaits that make a task slower than nearly all like it.
const SLOW: (&str, &str) = ("slow", "p99");

/// Adds to a sum that only the thread that polls writes.
fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State::new(clock::monotonic_nanos(), "a", LabelSet::EMPTY, StackNumber::NONE)
    }

    #[test]
    fn all_time_is_in_one_of_the_four_parts() {
        let state = state();
        let born = state.born;
        state.begin_poll(born + 10);
        state.end_poll(born + 110, 30, AwaitPoint::NONE);
        state.woken.store(born + 150, Ordering::Relaxed);
        state.begin_poll(born + 160);
        // Woken during the poll: it is runnable from its end on.
        state.woken.store(born + 170, Ordering::Relaxed);
        state.end_poll(born + 200, 900, AwaitPoint::NONE);
        state.begin_poll(born + 205);
        state.end_poll(born + 206, 0, AwaitPoint::NONE);
        let times = state.times();
        let expected = Times { wall: 206, cpu: 71, blocked: 70, awaiting: 40, runnable: 25 };
        assert_eq!(times, expected);
        assert_eq!(times.wall, times.cpu + times.blocked + times.awaiting + times.runnable);
    }

    #[test]
    fn an_await_that_makes_a_task_slow_says_so() {
        let labels = LabelSet::new([("route", "/of-the-slow")]);
        let state = State::new(1_000_000, "a", labels.clone(), StackNumber::NONE).slow_after(1000);
        let awaits = awaits().expect("memory");
        // Those of a span in the task.
        let (context, slow) = state.contexts(awaits, &labels.with([("span", "load")]));
        let point = AwaitPoint { stack: awaits.stack(&[0x51, 0x52]), context, slow, weight: 1 };
        for (from, to) in [(0, 900), (901, 1100)] {
            state.begin_poll(state.born + from);
            state.end_poll(state.born + from, 0, point);
            state.begin_poll(state.born + to);
            state.end_poll(state.born + to, 0, AwaitPoint::NONE);
        }
        let rows = awaits.snapshot();
        let own = rows.iter().filter(|row| row.stack == [0x51, 0x52]);
        let mut found: Vec<_> = own.map(|row| (row.nanos(), row.labels.clone())).collect();
        found.sort();
        let route = ("route".to_owned(), "/of-the-slow".to_owned());
        let (slow, span) = [("slow", "p99"), ("span", "load")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(found, [(199, vec![route.clone(), slow, span.clone()]), (900, vec![route, span])]);
    }

    #[test]
    fn phases_follow_polls_and_wakes() {
        let state = state();
        let phase = || state.info(u64::MAX).phase;
        assert_eq!(phase(), Phase::Runnable);
        state.begin_poll(state.born + 1);
        assert_eq!(phase(), Phase::Running);
        state.end_poll(state.born + 2, 0, AwaitPoint::NONE);
        assert_eq!(phase(), Phase::Awaiting);
        state.wake();
        state.wake();
        assert_eq!((phase(), state.info(0).polls), (Phase::Runnable, 1));
    }
}
