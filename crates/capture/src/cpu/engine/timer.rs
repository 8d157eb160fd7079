//! A POSIX timer on each thread's CPU clock, made from outside for every thread of the process.
//!
//! The kernel checks CPU timers at its tick, so at high frequencies one signal stands for several periods;
//! `si_overrun` says how many. What a thread used before it was found is not lost: it is owed, and added to its first
//! sample. (A timer set to a moment in the past would do the same, but fire at once, even into a sleeping thread, and
//! end its sleep. A timer set to the future only ever finds its thread running.) A thread that is found late because
//! the kernel refused its first timer, or because a listing left it out, is owed no more than the time since the last
//! look: what it used before that counts as unseen, not as the weight of one stack.
//!
//! (A timer on the CPU clock of the whole process would also reach threads that live for less than the time between
//! two looks. But its signal goes to the process, not to a thread: when the running thread blocks it, if only while
//! its own handler runs, the kernel delivers it to another thread, whose sleep it ends.)
//!
//! What a thread uses between the last tick that found it running and its end is never seen: half a tick on average.
//! To make up for it, a timer counts from that much before the moment it is made.
//!
//! A thread that is announced when it begins may live for less than a tick. So the first tick that finds it running
//! stands for a whole tick, whatever its age: then the expected weight of a thread is the time it used, however short.
//!
//! Where the program lets threads make their timers themselves as they start (`starts`), looking is for the others only.

use super::posix_timer::{Timer, clock_of, is_alive, tick_nanos};
use super::{Engine, starts};
use crate::cpu::handler;
use crate::cpu::options::Engine as Choice;
use crate::threads::{self, Listed, Tid};
use flamelet_profile::Random;
use rustc_hash::FxHashMap;
use std::io;

pub(super) struct Timers {
    period_nanos: u64,
    by_thread: FxHashMap<Tid, Armed>,
    /// CPU time that threads used before they had a timer, and that no sample stands for yet.
    owed: FxHashMap<Tid, u64>,
    /// Threads for which no timer could be made.
    unreached: usize,
    listing: threads::Listing,
    listed: Vec<Listed>,
    /// The threads that have made their timers themselves.
    self_armed: Vec<Tid>,
    /// Where threads make their timers themselves: those that had none at the last look. They may have been about to.
    strangers: Vec<Tid>,
    /// When the last listing began, on the monotonic clock.
    listed_at: u64,
    random: Random,
    tick_nanos: u64,
}

/// A thread that has a timer.
struct Armed {
    /// The number of its folder: see [`Listed`].
    folder: u64,
    /// The thread's CPU clock when the timer was made.
    cpu_nanos: u64,
    _timer: Timer,
}

impl Timers {
    pub(super) fn start(period_nanos: u64) -> io::Result<Self> {
        let mut timers = Self {
            period_nanos,
            by_thread: FxHashMap::default(),
            owed: FxHashMap::default(),
            unreached: 0,
            listing: threads::Listing::open()?,
            listed: Vec::new(),
            self_armed: Vec::new(),
            strangers: Vec::new(),
            listed_at: crate::clock::monotonic_nanos(),
            tick_nanos: tick_nanos(),
            random: Random::new(crate::clock::monotonic_nanos()),
        };
        // At least the thread that starts the engine must get a timer.
        Timer::new(threads::this_thread(), period_nanos, u64::MAX >> 8)?;
        starts::begin(period_nanos.max(timers.tick_nanos), timers.tick_nanos);
        timers.arm_all(true);
        Ok(timers)
    }

    /// Makes timers for threads that have none, forgets threads that ended, and returns how many are new. When the
    /// engine starts or changes its period the threads are old: what they used before does not count.
    fn arm_all(&mut self, are_old: bool) -> usize {
        let before = std::mem::replace(&mut self.listed_at, crate::clock::monotonic_nanos());
        self.listing.read(&mut self.listed);
        self.follow(if are_old { None } else { Some(before) })
    }

    /// Does the same for the threads in `listed`. Those without a timer were born after `born_after`, if that is
    /// known.
    fn follow(&mut self, born_after: Option<u64>) -> usize {
        // A listing may leave out a living thread: it continues by position while other threads end.
        let is_listed = |tid: &Tid| self.listed.binary_search_by_key(tid, |thread| thread.tid).is_ok();
        let is_there = |tid: &Tid| is_listed(tid) || is_alive(*tid);
        starts::list(&mut self.self_armed, is_there);
        let is_self_armed = |tid: &Tid| self.self_armed.binary_search(tid).is_ok();
        self.by_thread.retain(|tid, _| is_there(tid) && !is_self_armed(tid));
        self.owed.retain(|tid, _| is_there(tid));
        self.unreached = 0;
        let known = self.by_thread.len();
        let before = std::mem::take(&mut self.strangers);
        for at in 0..self.listed.len() {
            let thread = self.listed[at];
            if !self.is_followed_elsewhere(thread.tid, born_after.map(|_| &before[..])) {
                self.follow_one(thread, born_after);
            }
        }
        self.by_thread.len().saturating_sub(known)
    }

    /// Returns whether a thread needs no timer from here: it is the collector, has made one itself, or is about to. Those
    /// that were no different at the last look, `before`, never will.
    fn is_followed_elsewhere(&mut self, tid: Tid, before: Option<&[Tid]>) -> bool {
        if tid == handler::collector() || self.self_armed.binary_search(&tid).is_ok() {
            return true;
        }
        let Some(before) = before.filter(|_| starts::is_installed()) else { return false };
        if self.by_thread.contains_key(&tid) || before.binary_search(&tid).is_ok() {
            return false;
        }
        self.strangers.push(tid);
        true
    }

    fn follow_one(&mut self, thread: Listed, born_after: Option<u64>) {
        let mut born_after = born_after;
        if let Some(armed) = self.by_thread.get_mut(&thread.tid) {
            if armed.folder == UNLISTED {
                armed.folder = thread.folder;
            }
            if armed.folder == thread.folder {
                return;
            }
            // Most likely another thread with the same id. In case it is the same one, nothing is counted twice.
            if crate::clock::read(clock_of(thread.tid)) < armed.cpu_nanos {
                self.owed.remove(&thread.tid);
            } else {
                born_after = None;
            }
            self.by_thread.remove(&thread.tid);
        }
        self.arm(thread, born_after);
    }

    fn arm(&mut self, Listed { tid, folder }: Listed, born_after: Option<u64>) {
        let now = crate::clock::read(clock_of(tid));
        // A thread cannot use more CPU time than has passed.
        let used = born_after.map_or(0, |then| crate::clock::monotonic_nanos().saturating_sub(then).min(now));
        let first = self.first_expiration(now - used);
        let due = Due::new(first, now, self.period_nanos);
        match Timer::new(tid, self.period_nanos, due.after_nanos) {
            Ok(timer) => {
                self.by_thread.insert(tid, Armed { folder, cpu_nanos: now, _timer: timer });
                if due.owed_nanos > 0 {
                    *self.owed.entry(tid).or_default() += due.owed_nanos;
                }
            }
            // EINVAL: the thread ended meanwhile.
            Err(error) => self.unreached += usize::from(error.raw_os_error() != Some(libc::EINVAL)),
        }
    }

    /// Returns when, on its clock, a timer first expires: at a random moment of the period that begins up to a tick
    /// before `begin`, so that threads are not sampled in step.
    fn first_expiration(&mut self, begin: u64) -> u64 {
        let phase = self.random.below(self.period_nanos);
        (begin + phase).saturating_sub(self.random.below(self.tick_nanos)).max(1)
    }
}

/// The folder of a thread that announced itself and was not listed yet.
const UNLISTED: u64 = u64::MAX;

impl Engine for Timers {
    fn choice(&self) -> Choice {
        Choice::Timer
    }

    fn thread_began(&mut self, tid: Tid) {
        if self.period_nanos == 0 {
            return;
        }
        self.owed.remove(&tid);
        // There is one look a tick at most, and each stands for a tick at least.
        let period_nanos = self.period_nanos.max(self.tick_nanos);
        let first = match self.random.below(period_nanos) {
            phase if phase < self.tick_nanos => 1,
            phase => phase - self.random.below(self.tick_nanos),
        };
        let Ok(timer) = Timer::new(tid, period_nanos, first) else { return };
        let cpu_nanos = crate::clock::read(clock_of(tid));
        self.by_thread.insert(tid, Armed { folder: UNLISTED, cpu_nanos, _timer: timer });
    }

    fn update(&mut self, period_nanos: u64) -> usize {
        let is_change = period_nanos != self.period_nanos;
        if is_change {
            // Signals carry their timer's period, so those under way keep their meaning.
            self.by_thread.clear();
            self.period_nanos = period_nanos;
            starts::end();
            starts::begin(period_nanos.max(self.tick_nanos), self.tick_nanos);
        }
        let new = self.arm_all(is_change);
        if is_change { 0 } else { new }
    }

    fn threads(&self) -> usize {
        self.by_thread.len() + self.self_armed.len()
    }

    fn threads_arm_themselves(&self) -> bool {
        starts::is_installed()
    }

    fn rest(&mut self) {
        starts::end();
        self.by_thread.clear();
        self.owed.clear();
        // The next update is like a start: what threads use until then is not sampled.
        self.period_nanos = 0;
    }

    fn unreached(&self) -> usize {
        self.unreached
    }

    fn take_owed(&mut self, tid: Tid) -> u64 {
        if self.owed.is_empty() { 0 } else { self.owed.remove(&tid).unwrap_or(0) }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        starts::end();
    }
}

/// When a timer expires first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    /// This much later; never 0.
    after_nanos: u64,
    /// The periods that were already over.
    owed_nanos: u64,
}

impl Due {
    /// For a timer that should have expired at `first` and every `period` from then on, when its clock shows `now`.
    fn new(first: u64, now: u64, period: u64) -> Self {
        let period = period.max(1);
        match now.checked_sub(first) {
            Some(late) => {
                let owed_nanos = (late / period + 1) * period;
                Self { after_nanos: first + owed_nanos - now, owed_nanos }
            }
            None => Self { after_nanos: first - now, owed_nanos: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_never_expires_in_the_past_and_nothing_is_forgotten() {
        assert_eq!(Due::new(30, 10, 100), Due { after_nanos: 20, owed_nanos: 0 });
        assert_eq!(Due::new(10, 10, 100), Due { after_nanos: 100, owed_nanos: 100 });
        assert_eq!(Due::new(10, 250, 100), Due { after_nanos: 60, owed_nanos: 300 });
        assert_eq!(Due::new(10, 209, 100), Due { after_nanos: 1, owed_nanos: 200 });
    }

    const MILLI: u64 = 1_000_000;

    /// Timers whose signals are ignored, because no sampler runs.
    fn timers() -> Timers {
        handler::install(crate::cpu::Signal::Profiling).expect("installed");
        Timers::start(MILLI).expect("timers work everywhere")
    }

    #[test]
    fn a_thread_that_a_listing_leaves_out_keeps_its_timer_until_it_ends() {
        let mut timers = timers();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(threads::this_thread()).expect("it waits");
            let _ = wait.recv();
        });
        let tid = told.recv().expect("it runs");
        timers.update(MILLI);
        assert!(timers.by_thread.contains_key(&tid));
        timers.owed.insert(tid, 7);
        timers.listed.clear();
        timers.follow(Some(timers.listed_at));
        assert!(timers.by_thread.contains_key(&tid), "it lives");
        assert_eq!(timers.take_owed(tid), 7);
        drop(end);
        thread.join().expect("no panic");
        // The kernel lets a joined thread linger for a moment.
        while is_alive(tid) {
            std::thread::yield_now();
        }
        timers.follow(Some(timers.listed_at));
        assert!(!timers.by_thread.contains_key(&tid), "it ended");
    }

    #[test]
    fn a_thread_that_announces_itself_has_one_timer() {
        let mut timers = timers();
        let this = threads::this_thread();
        timers.by_thread.remove(&this);
        timers.thread_began(this);
        let armed_at = timers.by_thread[&this].cpu_nanos;
        timers.update(MILLI);
        let armed = &timers.by_thread[&this];
        assert!(armed.cpu_nanos == armed_at && armed.folder != UNLISTED, "the same timer, now listed");
        assert_eq!(timers.take_owed(this), 0);
        timers.rest();
        timers.thread_began(this);
        assert!(timers.by_thread.is_empty(), "the engine rests");
    }

    #[test]
    fn a_thread_that_gets_its_timer_late_is_not_owed_its_whole_life() {
        let mut timers = timers();
        let this = threads::this_thread();
        while crate::clock::thread_cpu_nanos() < 300 * MILLI {
            std::hint::black_box((0..10_000u64).fold(1, |sum: u64, i| sum.wrapping_mul(31) ^ i));
        }
        // As if the kernel had refused: the thread is listed, and has no timer.
        timers.by_thread.remove(&this);
        timers.take_owed(this);
        let thread = Listed { tid: this, folder: 1 };
        timers.listed = vec![thread];
        let begin = crate::clock::monotonic_nanos();
        timers.follow(Some(begin));
        let passed = crate::clock::monotonic_nanos() - begin;
        let most = passed + timers.tick_nanos + MILLI;
        let owed = timers.take_owed(this);
        assert!(owed <= most, "{owed} ns owed of {passed} ns");
        // A thread that is known to be as young as its clock is owed all of it.
        timers.by_thread.remove(&this);
        timers.follow(Some(0));
        assert!(timers.take_owed(this) >= 299 * MILLI);
        // Another folder: perhaps the same thread, which is owed nothing; certainly another where the clock went
        // back.
        timers.listed = vec![Listed { folder: 2, ..thread }];
        timers.follow(Some(0));
        assert!(timers.by_thread[&this].folder == 2 && timers.take_owed(this) <= timers.tick_nanos + MILLI);
        timers.by_thread.get_mut(&this).expect("armed").cpu_nanos = u64::MAX;
        timers.listed = vec![thread];
        timers.follow(Some(0));
        assert!(timers.by_thread[&this].folder == 1 && timers.take_owed(this) >= 299 * MILLI);
    }
}
