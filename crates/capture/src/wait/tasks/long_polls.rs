//! Polls that take long: they hold up a thread of the executor, and with it all other tasks of that thread.
//!
//! Each thread that polls notes in its slot when the poll began. A thread of flamelet looks at the slots and, when a
//! poll has taken too long, takes the stack of its thread by a signal. The poll counts its own time when it ends.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use flamelet_unwind::fork::{self, Handlers, Part};

use super::super::delays::{Delays, StackNumber, Weight};
use super::super::{Rows, stacks};
use super::cause::{Sight, Times};
use super::name::Name;
use super::rest::Rest;
use crate::labels::LabelSet;
use crate::{clock, own_threads, threads};

/// A poll that takes longer blocks the executor, unless another time is set: 10 ms.
pub const DEFAULT_THRESHOLD: u64 = 10_000_000;

static THRESHOLD: AtomicU64 = AtomicU64::new(DEFAULT_THRESHOLD);
static NANOS: AtomicU64 = AtomicU64::new(0);
static LENGTHS: [AtomicU64; BOUNDS.len() + 1] = [const { AtomicU64::new(0) }; BOUNDS.len() + 1];

/// The upper bounds of the histogram of long polls; one more bucket counts those that are longer than the last bound.
pub const BOUNDS: [Duration; 12] = {
    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }
    [
        millis(1),
        millis(2),
        millis(5),
        millis(10),
        millis(20),
        millis(50),
        millis(100),
        millis(200),
        millis(500),
        millis(1_000),
        millis(2_000),
        millis(5_000),
    ]
};
static TABLE: OnceLock<Option<Delays>> = OnceLock::new();

/// How many threads can poll at a time and be watched.
const SLOTS: usize = 512;

/// The stack of a poll is taken when it is about to have taken too long, by this part of the threshold: a poll that takes little
/// longer has ended when the thread that looks gets a CPU.
const EARLY: u64 = 8;

/// The most time between two looks, if nothing is polled.
const IDLE: Duration = Duration::from_millis(50);

/// The least time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);

/// After this many looks without a poll, the thread sleeps until there is one.
const CALM: u32 = 20;

static REST: Rest = Rest::new();

/// In a cache line of its own: each thread writes to its slot twice a poll.
#[repr(align(64))]
struct Slot {
    /// The thread that has it; 0 for none.
    thread: AtomicI32,
    /// When the current poll began; 0 between polls.
    since: AtomicU64,
    /// The stack of the poll that began at that time: the lower half of the time, and the number of the stack.
    stack: AtomicU64,
    /// What the thread did shortly before, as a [`Sight`].
    seen: AtomicU8,
}

static POLLING: [Slot; SLOTS] = [const {
    Slot {
        thread: AtomicI32::new(0),
        since: AtomicU64::new(0),
        stack: AtomicU64::new(0),
        seen: AtomicU8::new(0),
    }
}; SLOTS];

/// How many slots, counted from the first, may belong to threads; the others were never claimed.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

fn slots() -> &'static [Slot] {
    &POLLING[..IN_USE.load(Ordering::Relaxed).min(SLOTS)]
}

static AT_FORK: Handlers = Handlers::in_child(forget_all);

/// In the child of a fork, which has none of the threads that poll in its parent, and in which the thread that forked has
/// another number.
fn forget_all() {
    for slot in slots() {
        slot.since.store(0, Ordering::Relaxed);
        slot.stack.store(0, Ordering::Relaxed);
        slot.seen.store(0, Ordering::Relaxed);
        slot.thread.store(0, Ordering::Relaxed);
    }
}

/// The slot of a thread, and the process, as the number of its forks, in which the thread has it.
#[derive(Clone, Copy)]
struct Claimed {
    slot: Option<&'static Slot>,
    forks: u32,
}

impl Claimed {
    /// Returns the slot, unless it was claimed before a fork.
    fn slot(self) -> Option<&'static Slot> {
        self.slot.filter(|_| self.forks == fork::forks())
    }
}

/// A thread's slot, until the thread ends.
struct Claim(Cell<Option<Claimed>>);

thread_local! {
    static CLAIM: Claim = const { Claim(Cell::new(None)) };
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(slot) = self.0.get().and_then(Claimed::slot) {
            slot.since.store(0, Ordering::Relaxed);
            slot.thread.store(0, Ordering::Release);
        }
    }
}

impl Claim {
    fn claimed(&self) -> Claimed {
        let forks = fork::forks();
        self.0.get().filter(|claimed| claimed.forks == forks).unwrap_or_else(|| {
            let claimed = Claimed { slot: claim_slot(), forks };
            self.0.set(Some(claimed));
            claimed
        })
    }
}

/// Takes a free slot for this thread, if there is one.
#[cold]
fn claim_slot() -> Option<&'static Slot> {
    let thread = threads::this_thread();
    for (at, slot) in POLLING.iter().enumerate() {
        if slot.thread.load(Ordering::Relaxed) != 0 {
            continue;
        }
        // Before it is claimed: the child of a fork forgets no other slots.
        IN_USE.fetch_max(at + 1, Ordering::Relaxed);
        if slot.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(slot);
        }
    }
    None
}

#[inline]
fn claimed() -> Claimed {
    CLAIM.try_with(Claim::claimed).unwrap_or(Claimed { slot: None, forks: 0 })
}

thread_local! {
    /// The long polls that this thread has counted. A poll around them does not count their time again.
    static COUNTED: Cell<Times> = const { Cell::new(Times { running: 0, blocked: 0, locked: 0 }) };
}

/// A poll of this thread, as long as it lives. Polls nest.
pub(super) struct Running {
    claimed: Claimed,
    /// When the poll around this one, of another task, began.
    before: u64,
    /// What the thread had counted when it began.
    counted: Times,
}

/// Notes that this thread has been polling since `start`.
#[inline]
pub(super) fn begin(start: u64) -> Running {
    let claimed = claimed();
    // Only this thread writes to it.
    let before = claimed.slot.map_or(0, |slot| {
        let before = slot.since.load(Ordering::Relaxed);
        slot.since.store(start, Ordering::Relaxed);
        before
    });
    REST.end();
    Running { claimed, before, counted: COUNTED.get() }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(slot) = self.claimed.slot() {
            slot.since.store(self.before, Ordering::Relaxed);
        }
    }
}

/// What a poll that took long is counted with.
pub(super) struct Poll<'a> {
    /// The name of the task.
    pub(super) name: &'a Name,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Time off the CPU, if it was measured.
    pub(super) blocked: Option<u64>,
    /// Time in locks.
    pub(super) locked: u64,
    pub(super) labels: &'a LabelSet,
}

impl Running {
    /// Ends a poll that took from `start` to `end`, and counts it if that is long.
    #[inline]
    pub(super) fn end<'a>(self, start: u64, end: u64, poll: impl FnOnce() -> Poll<'a>) {
        if end.saturating_sub(start) >= threshold() {
            self.count(&poll());
        }
    }

    /// Counts the poll if it took long even without the long polls inside it, which have counted themselves.
    #[cold]
    fn count(&self, poll: &Poll<'_>) {
        let own = poll.times(COUNTED.get().since(self.counted));
        if own.running >= threshold() {
            count(poll, own, self.claimed.slot());
            COUNTED.set(COUNTED.get().plus(own));
        }
    }
}

impl Poll<'_> {
    /// Returns its times without those of the polls inside it.
    fn times(&self, inside: Times) -> Times {
        Times {
            running: self.end.saturating_sub(self.start).saturating_sub(inside.running),
            blocked: self.blocked.unwrap_or(0).saturating_sub(inside.blocked),
            locked: self.locked.saturating_sub(inside.locked),
        }
    }
}

#[cold]
fn count(poll: &Poll<'_>, own: Times, slot: Option<&Slot>) {
    let Some(table) = table() else { return };
    let taken = slot.map_or(0, |slot| slot.stack.load(Ordering::Acquire));
    let is_of_this_poll = taken >> 32 == poll.start & 0xffff_ffff;
    let (stack, seen) = match slot.filter(|_| is_of_this_poll) {
        Some(slot) => (StackNumber::from_raw(taken as u32), slot.seen.load(Ordering::Relaxed)),
        None => (StackNumber::NONE, Sight::Other as u8),
    };
    let cause = own.cause(Sight::from_raw(seen));
    let labels = poll.labels.with([("cause", cause)]);
    NANOS.fetch_add(own.running, Ordering::Relaxed);
    LENGTHS[place(own.running)].fetch_add(1, Ordering::Relaxed);
    table.add_labelled(stack, StackNumber::NONE, &labels, Weight::times(own.running, 1));
    if let Some(listener) = listener() {
        listener(&LongPoll {
            task: poll.name.text(),
            labels: poll.labels,
            duration: Duration::from_nanos(own.running),
            cause,
        });
    }
}

/// A poll that took long.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LongPoll<'a> {
    /// The name of its task.
    pub task: &'a str,
    /// The labels of its task.
    pub labels: &'a LabelSet,
    /// How long it took, without the long polls inside it.
    pub duration: Duration,
    /// What held it up for most of that: `cpu`, `lock`, `file` or `system call`.
    pub cause: &'static str,
}

/// What listeners learn about long polls.
pub type Listener = fn(&LongPoll<'_>);

static LISTENER: OnceLock<Listener> = OnceLock::new();
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// From now on, calls `listener` for each long poll, on the thread of the poll and right after it, or stops doing so. A
/// process has one listener; the first one wins.
pub fn tell(listener: Listener, is_on: bool) {
    if is_on {
        let _ = LISTENER.set(listener);
    }
    IS_HEARD.store(is_on, Ordering::Relaxed);
}

fn listener() -> Option<Listener> {
    LISTENER.get().copied().filter(|_| IS_HEARD.load(Ordering::Relaxed))
}

fn table() -> Option<&'static Delays> {
    Delays::in_cell(&TABLE)
}

/// Returns the long polls, by stack.
pub fn snapshot() -> Rows {
    TABLE.get().and_then(Option::as_ref).map(Delays::snapshot).unwrap_or_default()
}

/// Returns the total length of all long polls, in nanoseconds.
pub fn nanos() -> u64 {
    NANOS.load(Ordering::Relaxed)
}

/// Returns the histogram of long polls: for each of the [`BOUNDS`], how many took no longer than it and longer than the
/// bound before; the last entry counts those above all bounds.
pub fn lengths() -> [u64; BOUNDS.len() + 1] {
    LENGTHS.each_ref().map(|count| count.load(Ordering::Relaxed))
}

fn place(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < Duration::from_nanos(nanos))
}

/// Sets from what length on, in nanoseconds, a poll counts as long; at least 1 ms.
pub fn set_threshold(nanos: u64) {
    THRESHOLD.store(nanos.max(1_000_000), Ordering::Relaxed);
}

/// Returns from what length on, in nanoseconds, a poll counts as long.
pub fn threshold() -> u64 {
    THRESHOLD.load(Ordering::Relaxed)
}

/// Starts the watching thread, once in each process. Without it, polls are counted without their stacks.
#[inline]
pub(super) fn watch() {
    /// The process in which it was started: one more than its number of forks.
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let this = fork::forks().wrapping_add(1);
    if STARTED.load(Ordering::Relaxed) != this && STARTED.swap(this, Ordering::Relaxed) != this {
        fork::watch(Part::Polls, &AT_FORK);
        start_watching();
    }
}

#[cold]
fn start_watching() {
    if stacks::prepare().is_ok() && table().is_some() {
        // Without a thread, there are no stacks.
        drop(own_threads::spawn("flamelet-polls", watch_all));
    }
}

fn watch_all() {
    let (mut calibration, mut calm) = (clock::Calibration::default(), 0);
    loop {
        calibration.go_on();
        let threshold = threshold();
        let oldest = look(threshold);
        calm = if oldest.is_some() { 0 } else { calm + 1 };
        if calm > CALM {
            let is_over = REST.begin(|| look(threshold).is_some());
            calm = if is_over { 0 } else { CALM };
            continue;
        }
        std::thread::sleep(pause(oldest, threshold));
    }
}

/// Returns the age at which the stack of a poll is taken.
fn due(threshold: u64) -> u64 {
    threshold - threshold / EARLY
}

/// Returns the time until the next look, when the oldest poll whose stack was not taken is so old.
fn pause(oldest: Option<u64>, threshold: u64) -> Duration {
    let due = due(threshold);
    match oldest {
        // Until the oldest is due; but not forever, because the threshold may be lowered.
        Some(age) => Duration::from_nanos(due.saturating_sub(age)).clamp(SHORTEST, Duration::from_secs(1)),
        None => IDLE.min(Duration::from_nanos(due)),
    }
}

/// Takes the stacks of threads whose polls are due. Returns how long the oldest of the others has taken, 0 if there are no
/// others; `None` if no thread polls.
fn look(threshold: u64) -> Option<u64> {
    let (now, mut oldest, due) = (clock::monotonic_nanos(), None, due(threshold));
    for slot in slots() {
        let since = slot.since.load(Ordering::Relaxed);
        if since == 0 {
            continue;
        }
        let is_taken = slot.stack.load(Ordering::Relaxed) >> 32 == since & 0xffff_ffff;
        let age = now.saturating_sub(since);
        if !is_taken && age >= due {
            take(slot, since);
        }
        oldest = oldest.max(Some(if is_taken || age >= due { 0 } else { age }));
    }
    oldest
}

fn take(slot: &Slot, since: u64) {
    let Some(table) = table() else { return };
    let (mut frames, thread) = (Vec::new(), slot.thread.load(Ordering::Relaxed));
    let seen = Sight::of(thread);
    if stacks::take(thread, &mut frames).is_some() && slot.since.load(Ordering::Acquire) == since {
        let stack = u64::from(table.stack(&frames).raw());
        slot.seen.store(seen as u8, Ordering::Relaxed);
        slot.stack.store((since & 0xffff_ffff) << 32 | stack, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_test_support::holds_in_child;

    fn polling() -> usize {
        POLLING.iter().filter(|slot| slot.since.load(Ordering::Relaxed) != 0).count()
    }

    fn threads() -> Vec<i32> {
        let all = POLLING.iter().map(|slot| slot.thread.load(Ordering::Relaxed));
        all.filter(|&thread| thread != 0).collect()
    }

    #[test]
    fn a_child_has_none_of_the_polls_of_its_parent() {
        fork::watch(Part::Polls, &AT_FORK);
        let outer = begin(1);
        let inner = begin(2);
        assert!(polling() > 0 && threads().contains(&threads::this_thread()));
        assert!(holds_in_child(|| {
            let is_empty = polling() == 0 && threads().is_empty();
            let own = begin(3);
            let is_own = polling() == 1 && threads() == [threads::this_thread()];
            drop(own);
            // These began in the parent: their times do not come back.
            drop((inner, outer));
            is_empty && is_own && polling() == 0
        }));
    }

    #[test]
    fn every_poll_that_takes_too_long_is_looked_at_before_it_has() {
        const STEPS: u64 = 97;
        let threshold = DEFAULT_THRESHOLD;
        // What the look before the poll began has seen: nothing, or another poll of this age.
        let seen = (0..=STEPS).map(|step| Some(due(threshold) * step / STEPS)).chain([None]);
        for first in seen.map(|oldest| pause(oldest, threshold).as_nanos() as u64) {
            for began in (0..=STEPS).map(|step| first * step / STEPS) {
                let mut age = first - began;
                while age < due(threshold) {
                    age += pause(Some(age), threshold).as_nanos() as u64;
                }
                assert!(age < threshold, "{age} ns after it began, {began} of {first} ns after a look");
            }
        }
    }

    #[test]
    fn each_length_has_its_place() {
        let millis = |millis: u64| place(millis * 1_000_000);
        assert_eq!([1, 2, 10, 11, 5_000, 5_001].map(millis), [0, 1, 3, 4, 11, 12]);
        assert_eq!((place(0), place(u64::MAX)), (0, BOUNDS.len()));
        assert!(BOUNDS.is_sorted());
    }
}
