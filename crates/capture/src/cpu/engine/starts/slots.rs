//! The threads that have made their timers themselves.
//!
//! A slot belongs to its thread, which gives it back at its end. The timer in it belongs to whoever takes it out: the thread
//! at its end, or the engine.

use super::super::posix_timer::Timer;
use crate::clock;
use crate::tables::mix;
use crate::threads::{self, Tid};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// How many threads can have their own timers at a time; the engine looks for further ones.
const SLOTS: usize = 2048;

struct TimerSlot {
    /// The thread that has it; 0 for none.
    thread: AtomicI32,
    /// The number of its timer; 0 for none.
    timer: AtomicUsize,
}

static SLOT: [TimerSlot; SLOTS] =
    [const { TimerSlot { thread: AtomicI32::new(0), timer: AtomicUsize::new(0) } }; SLOTS];

/// The period of the timers that threads make, and above it a number that changes with every start and end; 0 when threads
/// make none.
static ARMING: AtomicU64 = AtomicU64::new(0);
const PERIOD_BITS: u32 = 40;
static TICK: AtomicU64 = AtomicU64::new(0);
/// Whether the program starts its threads through the hook.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// The key under which a thread has its slot, plus one, so that the C library calls us when it ends; 0 before it is made.
static KEY: AtomicU32 = AtomicU32::new(0);

pub(super) fn note_installed() {
    if !IS_INSTALLED.load(Ordering::Relaxed) {
        IS_INSTALLED.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the program starts its threads through the hook.
pub(in super::super) fn is_installed() -> bool {
    IS_INSTALLED.load(Ordering::Relaxed)
}

/// Returns whether threads that start now should make their timers.
pub(super) fn is_arming() -> bool {
    ARMING.load(Ordering::Relaxed) != 0
}

/// From now on, threads that start make a timer of this period, which is at least the kernel's tick.
pub(in super::super) fn begin(period_nanos: u64, tick_nanos: u64) {
    static GENERATION: AtomicU64 = AtomicU64::new(0);
    make_key();
    if KEY.load(Ordering::Acquire) == 0 {
        return;
    }
    TICK.store(tick_nanos, Ordering::Relaxed);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
    let period = period_nanos.min((1 << PERIOD_BITS) - 1);
    ARMING.store(generation << PERIOD_BITS | period, Ordering::SeqCst);
}

/// Threads that start make no timers any more, and those that were made are deleted.
pub(in super::super) fn end() {
    ARMING.store(0, Ordering::SeqCst);
    // A thread that does not see this has put its timer where the loop sees it.
    fence(Ordering::SeqCst);
    SLOT.iter().for_each(|slot| drop(slot.take_timer()));
}

/// Writes the threads that have their own timers to `listed`, in order, and gives back the slots of threads that are gone
/// without saying so.
pub(in super::super) fn list(listed: &mut Vec<Tid>, is_there: impl Fn(&Tid) -> bool) {
    listed.clear();
    for slot in &SLOT {
        let thread = slot.thread.load(Ordering::Acquire);
        if thread == 0 {
            continue;
        }
        if !is_there(&thread) {
            drop(slot.take_timer());
            let _ = slot.thread.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
        } else if slot.timer.load(Ordering::Acquire) != 0 {
            listed.push(thread);
        }
    }
    listed.sort_unstable();
}

pub(super) fn forget_all() {
    ARMING.store(0, Ordering::Relaxed);
    for slot in &SLOT {
        slot.timer.store(0, Ordering::Relaxed);
        slot.thread.store(0, Ordering::Relaxed);
    }
}

impl TimerSlot {
    fn take_timer(&self) -> Option<Timer> {
        match self.timer.swap(0, Ordering::SeqCst) {
            0 => None,
            // SAFETY: it was put there by the thread that made it, and the swap gives it to one taker.
            number => Some(unsafe { Timer::from_number(number) }),
        }
    }

    /// Deletes the timer, and gives the slot back.
    fn leave(&self) {
        drop(self.take_timer());
        self.thread.store(0, Ordering::Release);
    }
}

/// Makes a timer for this thread, which has just started. Without a free slot, the thread is found by the next look
/// instead.
pub(super) fn arm_this_thread() {
    let arming = ARMING.load(Ordering::SeqCst);
    if arming == 0 {
        return;
    }
    let thread = threads::this_thread();
    let Some(at) = claim(thread) else { return };
    let period = arming & ((1 << PERIOD_BITS) - 1);
    let slot = &SLOT[at];
    let random = mix(clock::monotonic_nanos() ^ u64::from(thread.unsigned_abs()) << 32);
    let first = first_expiration(random, TICK.load(Ordering::Relaxed), period);
    let Ok(timer) = Timer::new(thread, period, first) else {
        return slot.leave();
    };
    slot.timer.store(timer.into_number(), Ordering::SeqCst);
    // Either this sees that the engine has ended, or the engine sees the timer.
    fence(Ordering::SeqCst);
    if ARMING.load(Ordering::SeqCst) != arming || !leave_at_end(at) {
        slot.leave();
    }
}

fn claim(thread: Tid) -> Option<usize> {
    let first = thread.unsigned_abs() as usize;
    let is_free = |at: &usize| {
        let owner = &SLOT[*at].thread;
        owner.load(Ordering::Relaxed) == 0
            && owner.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    (0..SLOTS).map(|step| (first + step) % SLOTS).find(is_free)
}

/// Returns a whole number of ticks below the period, at random, and the least there is.
fn first_expiration(random: u64, tick: u64, period: u64) -> u64 {
    let tick = tick.max(1);
    1 + random % period.max(1) / tick * tick
}

/// Makes the key whose destructor the C library calls at the end of a thread, however it ends. Called under a lock.
fn make_key() {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: writes a key; the function has the right type, and lives as long as the program.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
    }
}

/// Lets [`at_end`] be called for this thread.
fn leave_at_end(at: usize) -> bool {
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: a key that was made, and a value that is never a pointer that anyone follows.
    key != 0 && unsafe { libc::pthread_setspecific(key - 1, (at + 1) as *const c_void) } == 0
}

/// At the end of a thread that has a slot.
unsafe extern "C" fn at_end(value: *mut c_void) {
    let Some(slot) = (value as usize).checked_sub(1).and_then(|at| SLOT.get(at)) else { return };
    // In the child of a fork the slot is not this thread's any more.
    if slot.thread.load(Ordering::Acquire) == threads::this_thread() {
        slot.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: u64 = 200_000;

    /// Simulates threads that use `run` each, beside a kernel with a tick of 4 ms: what the expirations stand for, over what
    /// the threads used.
    fn seen(run: u64, period: u64) -> f64 {
        const TICK_NANOS: u64 = 4_000_000;
        let mut sum = 0;
        for thread in 0..THREADS {
            let first = first_expiration(mix(thread + THREADS), TICK_NANOS, period);
            // The tick that comes first in the thread's life, and the last one.
            let offset = mix(thread) % TICK_NANOS;
            let Some(last) = (run > offset).then(|| run - (run - offset) % TICK_NANOS) else { continue };
            if last >= first {
                sum += ((last - first) / period + 1) * period;
            }
        }
        sum as f64 / (run * THREADS) as f64
    }

    #[test]
    fn the_slot_of_a_thread_that_is_gone_is_given_back_even_without_a_timer() {
        // No kernel has a thread of this number.
        const GONE: Tid = Tid::MAX;
        let alive = threads::this_thread();
        let slots = [GONE, alive].map(|thread| claim(thread).expect("a free slot"));
        let mut listed = Vec::new();
        // Threads of other tests are left alone.
        list(&mut listed, |thread| *thread != GONE);
        assert_eq!(slots.map(|at| SLOT[at].thread.load(Ordering::Relaxed)), [0, alive]);
        assert!(!listed.contains(&alive), "it has no timer");
        SLOT[slots[1]].leave();
    }

    #[test]
    fn threads_of_any_length_are_seen_in_proportion() {
        const MICRO: u64 = 1_000;
        for period in [10_101_010, 52_631_578, 4_000_000] {
            for run in [300 * MICRO, 1_000 * MICRO, 3_900 * MICRO, 12_345 * MICRO, 100_000 * MICRO] {
                let share = seen(run, period);
                // Four standard deviations of as many expirations as there should be, and what ticks round.
                let allowed = 4.0 / ((run * THREADS) as f64 / period as f64).sqrt() + 0.01;
                assert!(
                    (share - 1.0).abs() < allowed,
                    "{run} ns every {period} ns: {share}, not within {allowed}"
                );
            }
        }
    }
}
