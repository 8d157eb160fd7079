//! What is known about a task.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::super::delays::{ContextNumber, Delays, StackNumber, Weight};
use super::awaits;
use crate::clock;
use crate::labels::LabelSet;

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being polled.
    Running,
    /// It was woken, or not polled yet, and waits for the executor.
    Runnable,
    /// It waits to be woken.
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
    /// From its making until now, or until its end.
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
    /// Counts all tasks of the process, from 1.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: LabelSet,
    /// What it is doing.
    pub phase: Phase,
    /// Nanoseconds since it does that.
    pub phase_nanos: u64,
    /// Nanoseconds since it was made.
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
    /// The same with the label of slow tasks; none if the task cannot be slow.
    pub(super) slow: ContextNumber,
    /// How many awaits it stands for; 0 if the task only awaits another one that it polls, which counts the time itself.
    pub(super) weight: u64,
}

impl AwaitPoint {
    /// Not known: the poll was not sampled, or it was the last one.
    pub(super) const NONE: Self =
        Self { stack: StackNumber::NONE, context: ContextNumber::NONE, slow: ContextNumber::NONE, weight: 0 };
}

/// The state of a task. The thread that polls it writes, wakers mark it as woken, and anyone reads.
pub(super) struct State {
    pub(super) id: u64,
    pub(super) name: Box<str>,
    pub(super) labels: LabelSet,
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
    pub(super) fn new(id: u64, name: &str, labels: LabelSet, spawned: StackNumber) -> Self {
        let born = clock::monotonic_nanos();
        Self {
            id,
            name: name.into(),
            labels,
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

    /// Returns the context of an await with these labels, and the one that it has if the task turns out to be slow.
    pub(super) fn contexts(&self, awaits: &Delays, labels: &LabelSet) -> (ContextNumber, ContextNumber) {
        let slow = match self.slow_after {
            u64::MAX => ContextNumber::NONE,
            _ => awaits.context(&labels.with([SLOW])),
        };
        (awaits.context(labels), slow)
    }

    /// Marks awaits that end when the task is older than this: they are why it is slow.
    #[must_use]
    pub(super) fn slow_after(self, nanos: u64) -> Self {
        Self { slow_after: nanos, ..self }
    }

    /// Notes that the task was woken; the first time since its poll counts.
    pub(super) fn wake(&self) {
        if self.woken.load(Ordering::Relaxed) == 0 {
            let now = clock::monotonic_nanos();
            let _ = self.woken.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Notes that a poll begins `now`, and books the time since the last one.
    pub(super) fn begin_poll(&self, now: u64) {
        let woken = self.woken.swap(0, Ordering::Relaxed);
        self.book_wait(now, woken);
        self.changed.store(now, Ordering::Relaxed);
        self.is_running.store(true, Ordering::Relaxed);
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Books the time since the last poll, until `now`: awaiting until it was woken, then runnable.
    fn book_wait(&self, now: u64, woken: u64) {
        let since = self.changed.load(Ordering::Relaxed);
        // A poll without a wake-up ends the wait as well.
        let end = if woken == 0 { now } else { woken.clamp(since, now.max(since)) };
        add(&self.awaiting, end - since);
        add(&self.runnable, now.saturating_sub(end));
        let stack = StackNumber::from_raw(self.stack.swap(0, Ordering::Relaxed));
        let weight = self.weight.load(Ordering::Relaxed);
        if stack != StackNumber::NONE
            && weight > 0
            && let Some(awaits) = awaits()
        {
            let is_slow = end.saturating_sub(self.born) > self.slow_after;
            let context = if is_slow { &self.slow } else { &self.context };
            let context = ContextNumber::from_raw(context.load(Ordering::Relaxed));
            awaits.add_in_context(stack, StackNumber::NONE, context, Weight::times(end - since, weight));
        }
    }

    /// Notes that a poll ends `now`, after this much time off the CPU, and where the task awaits.
    pub(super) fn end_poll(&self, now: u64, blocked: u64, point: AwaitPoint) {
        let running = now.saturating_sub(self.changed.load(Ordering::Relaxed));
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

    /// Books an await that will not end, because the task is dropped.
    pub(super) fn end(&self) {
        if !self.is_running.load(Ordering::Relaxed) {
            let now = clock::monotonic_nanos();
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
            id: self.id,
            name: self.name.to_string(),
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

fn add(sum: &AtomicU64, more: u64) {
    sum.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State::new(1, "a", LabelSet::EMPTY, StackNumber::NONE)
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
        let state = State::new(1, "a", labels.clone(), StackNumber::NONE).slow_after(1000);
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
