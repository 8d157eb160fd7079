//! The function that stands in for the C library's `syscall`.

use std::cell::Cell;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flamelet_unwind::{Registers, live};

use super::super::delays::{MAX_FRAMES, StackNumber, Weight};
use super::forward::{errno, forward, set_errno};
use super::table;
use super::waiters::{self, PublishedWaiter};
use crate::tables::{mix, next_random};
use crate::{clock, own_threads};

/// The nanoseconds that a thread is blocked between two samples; 0 while nothing is counted.
static RATE: AtomicU64 = AtomicU64::new(0);

/// Whether a probe is running that checks if this function is called at all.
static IS_PROBED: AtomicBool = AtomicBool::new(false);
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// A call takes as long only if it has waited.
const INTERRUPTED: u64 = 1_000_000;

/// Our frames on top of every stack: the one that unwinds, its caller, and the program's `syscall` or `pthread_join`.
const OWN_FRAMES: usize = 3;

thread_local! {
    /// Whether this thread is at the tables: a signal handler that waits meanwhile is not counted.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static BLOCKED: Cell<u64> = const { Cell::new(0) };
}

/// Makes a system call as the C library's function of this name does, and counts waits and wakes by futex.
///
/// # Safety
/// As for the C library's function: the arguments must be right for the call.
#[inline(always)]
pub unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> c_long {
    if number == libc::SYS_futex && RATE.load(Ordering::Relaxed) != 0 {
        // SAFETY: the caller's promise.
        return unsafe { futex(arguments) };
    }
    if number == libc::SYS_gettid && IS_PROBED.load(Ordering::Relaxed) {
        WAS_CALLED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { forward(number, arguments) }
}

pub(super) fn is_installed() -> bool {
    IS_PROBED.store(true, Ordering::Relaxed);
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) };
    IS_PROBED.store(false, Ordering::Relaxed);
    WAS_CALLED.load(Ordering::Relaxed)
}

pub(super) fn set_rate(rate: u64) {
    RATE.store(rate, Ordering::Relaxed);
}

pub(super) fn rate() -> u64 {
    RATE.load(Ordering::Relaxed)
}

#[inline]
pub(super) fn blocked_nanos() -> u64 {
    BLOCKED.get()
}

/// What a futex call does, as far as it matters here.
enum Operation {
    Wait,
    Wake { all: bool },
    Other,
}

impl Operation {
    fn of(arguments: &[c_long; 6]) -> Self {
        let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
        match arguments[1] as i32 & !flags {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Self::Wait,
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Self::Wake { all: arguments[2] as i32 != 1 },
            _ => Self::Other,
        }
    }
}

/// # Safety
/// The arguments must be right for the call.
#[cold]
#[inline(never)]
unsafe fn futex(arguments: [c_long; 6]) -> c_long {
    let address = arguments[0] as usize;
    match Operation::of(&arguments) {
        Operation::Wait => {
            let waiting = Waiting::begin(address);
            // SAFETY: the caller's promise.
            let result = unsafe { forward(libc::SYS_futex, arguments) };
            let error = errno();
            if let Some(waiting) = waiting {
                waiting.end(if result == 0 { 0 } else { error });
            }
            set_errno(error);
            return result;
        }
        Operation::Wake { all } if waiters::are_there() => {
            let error = errno();
            leave_stack(address, all);
            set_errno(error);
        }
        Operation::Wake { .. } | Operation::Other => {}
    }
    // SAFETY: the caller's promise.
    unsafe { forward(libc::SYS_futex, arguments) }
}

/// A wait under way.
pub(super) struct Waiting {
    start: u64,
    rate: u64,
    /// How long it must last for its stack to be kept.
    threshold: u64,
    published: Option<PublishedWaiter>,
}

impl Waiting {
    /// Begins to wait for `address`. `None` if the wait is flamelet's own, or inside of the work on the tables.
    fn begin(address: usize) -> Option<Self> {
        let _busy = Busy::enter()?;
        let mut waiting = Self::new();
        waiting.published = waiters::publish(address, waiting.start, waiting.threshold);
        Some(waiting)
    }

    /// Begins to wait for something that no thread wakes by futex. `None` as above.
    pub(super) fn unpublished() -> Option<Self> {
        let _busy = Busy::enter()?;
        Some(Self::new())
    }

    fn new() -> Self {
        let rate = RATE.load(Ordering::Relaxed).max(1);
        let threshold = random() % rate;
        Self { start: clock::monotonic_nanos(), rate, threshold, published: None }
    }

    /// Counts the wait, which ended with `error` or was woken.
    #[inline(always)]
    pub(super) fn end(self, error: i32) {
        let wakers = self.published.map(PublishedWaiter::withdraw).unwrap_or_default();
        let delay = clock::monotonic_nanos().saturating_sub(self.start);
        // The value had changed already: there was no wait. Unless a signal has interrupted one: the kernel compares again before it
        // goes on.
        if error == libc::EAGAIN && delay < INTERRUPTED {
            return;
        }
        BLOCKED.set(BLOCKED.get().wrapping_add(delay));
        if delay > self.threshold {
            let releaser = match error {
                0 => wakers.own,
                // Whoever changed the value has woken another thread.
                libc::EAGAIN => wakers.other,
                _ => StackNumber::NONE,
            };
            count(releaser, Weight::by_time(delay, self.rate));
        }
    }
}

#[inline(never)]
fn count(releaser: StackNumber, weight: Weight) {
    let (Some(_busy), Some(table)) = (Busy::enter(), table()) else { return };
    let mut frames = [0; MAX_FRAMES + OWN_FRAMES];
    let unwound = live::unwind_here(&mut frames);
    let stack = table.stack(&frames[OWN_FRAMES.min(unwound.depth)..unwound.depth]);
    table.add(stack, releaser, weight);
}

#[inline(never)]
fn leave_stack(address: usize, all: bool) {
    let (Some(_busy), Some(table)) = (Busy::enter(), table()) else { return };
    // Of this function, because the closure may have a frame of its own.
    let here = Registers::here();
    let stack = || {
        let mut frames = [0; MAX_FRAMES + OWN_FRAMES];
        let unwound = live::unwind(&here, &mut frames);
        table.stack(&frames[OWN_FRAMES.min(unwound.depth)..unwound.depth])
    };
    waiters::mark(address, all, clock::monotonic_nanos, stack);
}

fn random() -> u64 {
    let mut state = match RANDOM.get() {
        0 => mix(RANDOM.with(|state| std::ptr::from_ref(state) as u64) ^ clock::monotonic_nanos()),
        state => state,
    };
    let number = next_random(&mut state);
    RANDOM.set(state);
    number
}

/// While this lives, the thread's waits and wakes are not counted.
struct Busy;

impl Busy {
    /// Enters, unless the thread is inside already or its waits are flamelet's own.
    fn enter() -> Option<Self> {
        if own_threads::is_unseen() || IS_BUSY.replace(true) { None } else { Some(Self) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.set(false);
    }
}
