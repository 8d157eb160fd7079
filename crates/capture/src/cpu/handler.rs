//! The signal handler. Everything that [`on_signal`] calls is async-signal-safe: no lock, no allocation, no
//! unwinding, and little stack (it runs on the 8 KB alternate stack that the standard library gives every thread, of
//! which the kernel takes up to half; on a smaller one no samples are taken). The few functions whose system calls
//! can fail preserve `errno`.
//!
//! None of it is in the caches when it runs, so what counts is how many lines and pages it touches: what it needs of
//! this module is one line, and whatever the collector can count is counted there.

use super::kernel_ring::{KernelRing, Read};
use super::options::{Engine, Signal};
use super::pool::{Pool, SampleRecord, Taken};
use super::signal_mask::SignalMask;
use crate::{Error, ErrorKind, Result};
use crate::{clock, labels, threads};
use flamelet_unwind::{Registers, Unwound, live};
use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// The signal of all engines; chosen when the first of them starts.
static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGPROF);

/// Returns the signal of all engines.
pub(super) fn signal() -> libc::c_int {
    SIGNAL.load(Ordering::Relaxed)
}

/// Returns that signal as the option that chooses it.
pub(super) fn choice() -> Signal {
    if signal() == Signal::Urgent.number() { Signal::Urgent } else { Signal::Profiling }
}

/// Returns the handler of the signal as the kernel has it. (In a preloaded library the C library's function may be
/// hooked, to show the program only what it has set itself.)
fn installed_handler() -> usize {
    // The kernel's structure: handler, flags, restorer, mask.
    let mut now = [0usize; 4];
    // SAFETY: the kernel writes its structure, which is no larger, and reads nothing.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal(),
            ptr::null::<usize>(),
            now.as_mut_ptr(),
            size_of::<u64>(),
        )
    };
    now[0]
}

/// A handler that took longer than this by the wall clock was interrupted itself.
const LONGEST_NANOS: u64 = 20_000;

/// Compiled without optimization, the handler does not fit on the alternate stack, so it runs on the thread's own.
const STACK: libc::c_int = if cfg!(unoptimized) { 0 } else { libc::SA_ONSTACK };
/// What it needs below the kernel's part; about twice what it was seen to use.
const ROOM: usize = if cfg!(unoptimized) { 16 << 10 } else { 2 << 10 };

/// The signals that wait until the handler is done. Another handler would run on the same alternate stack, where
/// there is no room for it: the kernel kills a process whose next signal does not fit.
const BLOCKED: SignalMask = SignalMask::ASYNCHRONOUS;

static SHARED: HandlerState = HandlerState {
    pool: AtomicPtr::new(ptr::null_mut()),
    inside: AtomicUsize::new(0),
    period: AtomicU64::new(0),
    itimer_last: AtomicU64::new(0),
    previous: AtomicPtr::new(ptr::null_mut()),
    collector: AtomicI32::new(0),
    is_active: AtomicBool::new(false),
    engine: AtomicU8::new(0),
};

/// What every signal reads, in one cache line.
#[repr(align(64))]
struct HandlerState {
    pool: AtomicPtr<Pool>,
    /// Handlers that may hold the pool.
    inside: AtomicUsize,
    /// The period of perf events.
    period: AtomicU64,
    /// The process' CPU time at the last sample of `setitimer`.
    itimer_last: AtomicU64,
    /// What to do with signals that are not the sampler's.
    previous: AtomicPtr<Previous>,
    /// The thread that must not be sampled.
    collector: AtomicI32,
    is_active: AtomicBool,
    engine: AtomicU8,
}

/// A disposition of the signal that the handler replaced.
struct Previous {
    action: libc::sigaction,
    /// The one that was replaced before. Whoever installed `action` since then may call the handler in turn.
    earlier: *const Previous,
}

// SAFETY: written before it is shared, and never changed or freed from then on.
unsafe impl Sync for Previous {}
// SAFETY: what it points to is never freed either, and belongs to no thread.
unsafe impl Send for Previous {}

/// Places for the dispositions that a program sets while a library that it does not know of samples it.
static PLACES: [OnceLock<Previous>; 32] = [const { OnceLock::new() }; 32];
static PLACES_TAKEN: AtomicUsize = AtomicUsize::new(0);

/// For a library that samples a program which does not know of it: answers the program's `sigaction` for the
/// sampler's signal without giving the signal away. Returns what the program set before, and keeps `new` for signals
/// that are not the sampler's. Returns `None` when the kernel must be asked, because the program has changed the
/// disposition too often. Async-signal-safe.
pub fn program_action(new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: null, or a structure that is never freed or changed; zeroes are the default disposition.
    let (now, earlier) = unsafe {
        let previous = SHARED.previous.load(Ordering::Acquire).as_ref();
        previous.map_or((std::mem::zeroed(), ptr::null()), |previous| (previous.action, previous.earlier))
    };
    if let Some(&action) = new {
        // Each place is taken once, so no thread waits for another.
        let place = PLACES.get(PLACES_TAKEN.fetch_add(1, Ordering::Relaxed))?;
        let previous = place.get_or_init(|| Previous { action, earlier });
        SHARED.previous.store(ptr::from_ref(previous).cast_mut(), Ordering::Release);
    }
    Some(now)
}

thread_local! {
    /// The signal that is being passed on, by its address, and the disposition it goes to.
    static PASSING: Cell<(usize, *const Previous)> = const { Cell::new((0, ptr::null())) };
    /// Whether the last stack of this thread needed a deep slot: the next one will, too.
    static IS_DEEP: Cell<bool> = const { Cell::new(false) };
}

/// File descriptors of the perf events.
pub(super) static PERF_FILES: IdSet = IdSet::new();
/// The rings of those that have one, by their place in [`PERF_FILES`].
static PERF_RINGS: [AtomicPtr<KernelRing>; IdSet::SIZE] =
    [const { AtomicPtr::new(ptr::null_mut()) }; IdSet::SIZE];
/// What handlers count themselves, because it never reaches the collector.
pub(super) static COUNTERS: HandlerCounters = HandlerCounters::new();

/// Counters for what never reaches the collector.
pub(super) struct HandlerCounters {
    /// Signals that came too late.
    pub(super) ignored: AtomicU64,
    /// Samples that found no free slot, and the CPU time that they stand for.
    pub(super) refused: AtomicU64,
    pub(super) refused_nanos: AtomicU64,
}

impl HandlerCounters {
    const fn new() -> Self {
        Self { ignored: AtomicU64::new(0), refused: AtomicU64::new(0), refused_nanos: AtomicU64::new(0) }
    }
}

/// What a timer carries in its signals, so that the handler knows whose they are and what they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerTag {
    /// The CPU time between two expirations.
    pub(super) period_nanos: u64,
}

impl TimerTag {
    const MAGIC: u64 = 0x00f1_a3e1 << 40;
    const PERIOD: u64 = (1 << 40) - 1;

    pub(super) fn pack(self) -> u64 {
        Self::MAGIC | self.period_nanos.min(Self::PERIOD)
    }

    fn unpack(value: u64) -> Option<Self> {
        let is_ours = value & !Self::PERIOD == Self::MAGIC;
        is_ours.then_some(Self { period_nanos: value & Self::PERIOD })
    }
}

/// Installs the handler for the chosen signal, unless it is already installed.
pub(super) fn install(choice: Signal) -> Result<()> {
    SIGNAL.store(choice.number(), Ordering::Relaxed);
    let denied = || {
        let error = std::io::Error::last_os_error();
        let name = choice.name();
        Error::new(ErrorKind::Denied, format!("the handler of {name} cannot be installed: {error}"))
    };
    let handler = on_signal as unsafe extern "C" fn(_, _, _) as usize;
    if installed_handler() == handler {
        return Ok(());
    }
    // SAFETY: plain C structures, zeroed and filled; the handler has the type that SA_SIGINFO promises.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal(), ptr::null(), &raw mut now) != 0 {
            return Err(denied());
        }
        // Never freed: a handler may be looking at it. This happens once, or once each time that the program
        // takes the signal away.
        let earlier = SHARED.previous.load(Ordering::Acquire);
        let previous = Box::into_raw(Box::new(Previous { action: now, earlier }));
        SHARED.previous.store(previous, Ordering::Release);
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | stack_beside(&now);
        new.sa_mask = BLOCKED.to_set();
        if libc::sigaction(signal(), &raw const new, ptr::null_mut()) != 0 {
            return Err(denied());
        }
    }
    Ok(())
}

/// Returns the flag for the stack on which the handler runs, given the disposition that was there before.
///
/// A program's own handler may have been made for its thread's stack and need far more than the 8 KB of an alternate
/// one. Ours calls it, so then both run on the thread's stack. That must have room for the kernel's part, which the
/// program's signals needed already, and for ours ([`ROOM`]), which is little compared with most handlers. In a
/// program that has such a handler, gets no signals, and has threads with stacks so small (a few KB) that no handler
/// would fit, a sample could overflow them; but those would not survive the program's own signals either.
fn stack_beside(before: &libc::sigaction) -> libc::c_int {
    let is_own = !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    if is_own && before.sa_flags & libc::SA_ONSTACK == 0 { 0 } else { STACK }
}

/// Returns whether signals still reach the handler.
pub(super) fn is_installed() -> bool {
    installed_handler() == on_signal as unsafe extern "C" fn(_, _, _) as usize
}

/// Sends samples to `pool` from now on. A pool that was replaced must live until [`no_handler_is_running`].
pub(super) fn use_pool(pool: &Pool) {
    SHARED.pool.store(ptr::from_ref(pool).cast_mut(), Ordering::SeqCst);
}

/// Returns whether no handler can hold a pool that was replaced before this call.
pub(super) fn no_handler_is_running() -> bool {
    SHARED.inside.load(Ordering::SeqCst) == 0
}

/// Starts taking samples, for `engine`.
pub(super) fn activate(engine: Engine, period_nanos: u64) {
    SHARED.itimer_last.store(clock::process_cpu_nanos(), Ordering::Relaxed);
    use_period(period_nanos);
    SHARED.engine.store(engine as u8, Ordering::Relaxed);
    SHARED.is_active.store(true, Ordering::SeqCst);
}

/// From now on perf events stand for this much CPU time. (What `setitimer` has not sampled yet goes to its next
/// sample.)
pub(super) fn use_period(period_nanos: u64) {
    SHARED.period.store(period_nanos, Ordering::Relaxed);
}

/// Stops taking samples. Late signals of timers and events are ignored; those of an interval timer are the program's
/// from now on.
pub(super) fn deactivate() {
    SHARED.is_active.store(false, Ordering::SeqCst);
    SHARED.engine.store(Engine::Auto as u8, Ordering::Relaxed);
}

/// In the child of a fork: forgets the parent's pool and threads, which do not exist there.
pub(super) fn forget_parent() {
    deactivate();
    SHARED.pool.store(ptr::null_mut(), Ordering::SeqCst);
    SHARED.inside.store(0, Ordering::SeqCst);
    forget_collector();
    threads::forget_this_thread();
}

/// In the child of a fork that takes samples itself: forgets the parent's events, which are not its own and whose
/// rings are not in its memory.
pub(super) fn forget_perf_events() {
    PERF_FILES.clear();
    PERF_RINGS.iter().for_each(|ring| ring.store(ptr::null_mut(), Ordering::SeqCst));
}

/// Makes the running thread the collector.
pub(super) fn become_collector() {
    SHARED.collector.store(threads::this_thread(), Ordering::Relaxed);
}

/// Forgets the collector, which ends: a later thread may get its id.
pub(super) fn forget_collector() {
    SHARED.collector.store(0, Ordering::Relaxed);
}

/// The collector's thread id.
pub(super) fn collector() -> threads::Tid {
    SHARED.collector.load(Ordering::Relaxed)
}

unsafe extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `info` and `context` are the kernel's, valid during the call.
    unsafe {
        match claim(&*info) {
            SignalMeaning::Sample(cpu_nanos, ring) => {
                let context = &*context.cast::<libc::ucontext_t>();
                if has_room(context) {
                    sample(cpu_nanos, ring, context);
                } else {
                    refuse(cpu_nanos);
                }
            }
            SignalMeaning::Nothing => {}
            SignalMeaning::NotOurs => pass_on(signal, info, context),
        }
    }
}

/// Gives the event `file`, which is in [`PERF_FILES`], this ring, which must live until [`retire_ring`].
pub(super) fn use_ring(file: i32, ring: &KernelRing) {
    if let Some(place) = PERF_FILES.place(file) {
        PERF_RINGS[place].store(ptr::from_ref(ring).cast_mut(), Ordering::SeqCst);
    }
}

/// Takes the ring of `file` away; returns when no handler looks at it any more.
pub(super) fn retire_ring(file: i32) {
    if let Some(place) = PERF_FILES.place(file) {
        PERF_RINGS[place].store(ptr::null_mut(), Ordering::SeqCst);
        while SHARED.inside.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

enum SignalMeaning {
    /// A sample that stands for this much CPU time, and the place of its event's ring.
    Sample(u64, Option<usize>),
    /// Ours, but too late, or for the collector.
    Nothing,
    NotOurs,
}

/// The part of `siginfo_t` that timers and files fill in.
#[repr(C)]
struct SignalDetails {
    numbers: [libc::c_int; 4],
    /// For timers: the timer and the overrun. For files: the band, in one word.
    timer_overrun: [libc::c_int; 2],
    /// For timers: the value given at creation. For files: the descriptor, in the lower half.
    value: u64,
}

#[inline(always)]
fn claim(info: &libc::siginfo_t) -> SignalMeaning {
    const SI_TIMER: libc::c_int = -2;
    const SI_KERNEL: libc::c_int = 0x80;
    const POLL_CODES: std::ops::RangeInclusive<libc::c_int> = 1..=6;
    // SAFETY: on 64-bit Linux a `siginfo_t` is 128 bytes and starts with these fields, for these codes.
    let details = unsafe { &*ptr::from_ref(info).cast::<SignalDetails>() };
    match info.si_code {
        SI_TIMER => match TimerTag::unpack(details.value) {
            Some(tag) => {
                let periods = 1 + u64::from(details.timer_overrun[1].max(0).unsigned_abs());
                active(None, || tag.period_nanos.saturating_mul(periods))
            }
            None => SignalMeaning::NotOurs,
        },
        SI_KERNEL if SHARED.engine.load(Ordering::Relaxed) == Engine::Setitimer as u8 => {
            active(None, since_the_last_itimer)
        }
        code if POLL_CODES.contains(&code) => match PERF_FILES.place(details.value as i32) {
            Some(place) => active(Some(place), || SHARED.period.load(Ordering::Relaxed)),
            None => SignalMeaning::NotOurs,
        },
        _ => SignalMeaning::NotOurs,
    }
}

/// Returns the CPU time since the last sample of `setitimer`. Called only when one is taken.
fn since_the_last_itimer() -> u64 {
    let now = clock::process_cpu_nanos();
    now.saturating_sub(SHARED.itimer_last.swap(now, Ordering::Relaxed))
}

#[inline(always)]
fn active(ring: Option<usize>, cpu_nanos: impl FnOnce() -> u64) -> SignalMeaning {
    let is_collector = threads::this_thread() == SHARED.collector.load(Ordering::Relaxed);
    if is_collector || !SHARED.is_active.load(Ordering::SeqCst) {
        COUNTERS.ignored.fetch_add(1, Ordering::Relaxed);
        return SignalMeaning::Nothing;
    }
    SignalMeaning::Sample(cpu_nanos(), ring)
}

/// Returns whether an alternate stack, if this runs on one, has the room that a sample needs.
#[inline(always)]
fn has_room(context: &libc::ucontext_t) -> bool {
    let here = ptr::from_ref(context) as usize;
    match here.checked_sub(context.uc_stack.ss_sp as usize) {
        Some(below) => below >= ROOM || context.uc_stack.ss_size <= below,
        None => true,
    }
}

/// Counts a sample that could not be taken.
#[cold]
fn refuse(cpu_nanos: u64) {
    COUNTERS.refused.fetch_add(1, Ordering::Relaxed);
    COUNTERS.refused_nanos.fetch_add(cpu_nanos, Ordering::Relaxed);
}

/// Takes one sample of the interrupted thread. Not inlined, so that [`on_signal`] does not need its stack memory.
#[inline(never)]
fn sample(cpu_nanos: u64, ring: Option<usize>, context: &libc::ucontext_t) {
    // They arrive in the cache while the clock is read.
    live::fetch(SHARED.pool.load(Ordering::Relaxed));
    live::about_to_unwind();
    let start = clock::monotonic_nanos();
    SHARED.inside.fetch_add(1, Ordering::SeqCst);
    // SAFETY: null, or a pool that lives while a handler that saw it is counted in `inside`: it was counted before it
    // looked, and a pool that was replaced is only dropped when no handler is inside.
    if let Some(pool) = unsafe { SHARED.pool.load(Ordering::SeqCst).as_ref() }
        && !record(pool, cpu_nanos, ring, start, context)
    {
        refuse(cpu_nanos);
    }
    SHARED.inside.fetch_sub(1, Ordering::SeqCst);
}

/// Fills a slot of the pool; returns `false` when none is free.
#[inline(always)]
fn record(
    pool: &Pool,
    mut cpu_nanos: u64,
    ring: Option<usize>,
    time: u64,
    context: &libc::ucontext_t,
) -> bool {
    let Some(mut slot) = (if IS_DEEP.get() { pool.take_deep() } else { pool.take() }) else { return false };
    let registers = Registers::of_context(context);
    let kernel = ring.map_or(Read::default(), |place| read_ring(place, &mut slot));
    // One signal may stand for several samples of the kernel.
    cpu_nanos = cpu_nanos.saturating_mul(kernel.samples.max(1));
    let mut unwound = live::unwind(&registers, &mut slot.frames()[kernel.depth..]);
    unwound.depth += kernel.depth;
    if unwound.depth == slot.frames().len() && slot.is_shallow() {
        unwound = unwind_deep(pool, &registers, kernel.depth, &mut slot);
    } else if IS_DEEP.get() && !pool.is_deep(unwound.depth) {
        IS_DEEP.set(false);
    }
    let passed = clock::monotonic_nanos().saturating_sub(time);
    slot.submit(SampleRecord {
        time,
        cpu_nanos,
        tid: threads::this_thread(),
        name: threads::name_of_this_thread(),
        labels: labels::current_id(),
        depth: unwound.depth as u32,
        handler_nanos: passed.min(LONGEST_NANOS) as u32,
        is_rooted: unwound.end.is_rooted(),
    });
    true
}

/// Unwinds once more from the start, with more room. The thread's next stack gets that room at once.
#[cold]
#[inline(never)]
fn unwind_deep<'a>(pool: &'a Pool, registers: &Registers, kernel: usize, slot: &mut Taken<'a>) -> Unwound {
    IS_DEEP.set(true);
    if let Some(mut deep) = pool.take_deep() {
        deep.frames()[..kernel].copy_from_slice(&slot.frames()[..kernel]);
        std::mem::replace(slot, deep).give_back();
    }
    let unwound = live::unwind(registers, &mut slot.frames()[kernel..]);
    Unwound { depth: unwound.depth + kernel, ..unwound }
}

/// Writes the kernel's side of a sample to the front of the frames.
#[cold]
#[inline(never)]
fn read_ring(place: usize, slot: &mut Taken<'_>) -> Read {
    // SAFETY: a ring lives while a handler that saw it is counted in `inside`.
    let ring = unsafe { PERF_RINGS[place].load(Ordering::SeqCst).as_ref() };
    ring.map_or(Read::default(), |ring| ring.read(slot.frames()))
}

/// Calls the handler that was there before, if there was one. If that one calls ours in turn, with the same signal,
/// continues with the handler before it instead of going in a circle.
#[cold]
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = match PASSING.get() {
        // SAFETY: it was found below, and such structures are never freed or changed.
        (passed, to) if passed == info as usize => unsafe { (*to).earlier },
        _ => SHARED.previous.load(Ordering::Acquire).cast_const(),
    };
    // SAFETY: null, or a structure that is never freed or changed.
    let Some(Previous { action, .. }) = (unsafe { previous.as_ref() }) else { return };
    PASSING.set((info as usize, previous));
    // SAFETY: `context` is the kernel's, or null from a handler that has none.
    let before = mask_for(action, unsafe { context.cast::<libc::ucontext_t>().as_ref() });
    // SAFETY: `action` was the program's, and the arguments are the kernel's.
    unsafe { call(action, signal, info, context) };
    before.apply();
    // Also at the end of an inner call, so that a handler that was left by a jump costs only one signal.
    PASSING.set((0, ptr::null()));
}

/// Blocks what the kernel would have blocked had it called `action` itself; returns what was blocked before. Not
/// where another handler called ours: it has chosen what is blocked, and the kernel would not have intervened.
fn mask_for(action: &libc::sigaction, context: Option<&libc::ucontext_t>) -> SignalMask {
    let now = SignalMask::of_this_thread();
    if let Some(interrupted) = context.map(|context| SignalMask::in_set(&context.uc_sigmask))
        && now == interrupted | BLOCKED
    {
        let is_deferred = action.sa_flags & libc::SA_NODEFER == 0;
        let itself = if is_deferred { SignalMask::of(signal()) } else { SignalMask::NONE };
        (interrupted | SignalMask::in_set(&action.sa_mask) | itself).apply();
    }
    now
}

/// Calls the program's handler, if `action` has one.
unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: SA_SIGINFO says that the program installed a function of this type.
            unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
        }
        handler => {
            type Handler = unsafe extern "C" fn(libc::c_int);
            // SAFETY: without SA_SIGINFO the program installed a function of this type.
            unsafe { std::mem::transmute::<usize, Handler>(handler)(signal) };
        }
    }
}

/// A set of small positive numbers that one thread changes and handlers read.
pub(super) struct IdSet {
    /// 0 was never used, −1 is free again.
    places: [AtomicI32; Self::SIZE],
}

impl IdSet {
    const SIZE: usize = 4096;
    const PROBES: usize = 32;
    const FREE: i32 = -1;

    const fn new() -> Self {
        Self { places: [const { AtomicI32::new(0) }; Self::SIZE] }
    }

    fn probes(&self, id: i32) -> impl Iterator<Item = &AtomicI32> {
        (0..Self::PROBES).map(move |step| &self.places[(id as usize + step) % Self::SIZE])
    }

    /// Returns where `id` is, if it is in the set. Async-signal-safe.
    pub(super) fn place(&self, id: i32) -> Option<usize> {
        for step in 0..Self::PROBES {
            let place = (id as usize).wrapping_add(step) % Self::SIZE;
            match self.places[place].load(Ordering::Acquire) {
                0 => return None,
                found if found == id => return Some(place),
                _ => {}
            }
        }
        None
    }

    /// Adds `id`; returns whether there was room.
    pub(super) fn insert(&self, id: i32) -> bool {
        let place = self.probes(id).find(|place| place.load(Ordering::Relaxed) <= 0);
        if let Some(place) = place {
            place.store(id, Ordering::Release);
        }
        place.is_some()
    }

    /// Removes all. No handler may be looking for any of them.
    fn clear(&self) {
        self.places.iter().for_each(|place| place.store(0, Ordering::Release));
    }

    pub(super) fn remove(&self, id: i32) {
        if let Some(place) = self.probes(id).find(|place| place.load(Ordering::Relaxed) == id) {
            place.store(Self::FREE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_packing_and_others_are_not_ours() {
        let tag = TimerTag { period_nanos: 1_000_000_000 };
        assert_eq!(TimerTag::unpack(tag.pack()), Some(tag));
        assert_eq!(TimerTag::unpack(0), None);
        assert_eq!(TimerTag::unpack(0x7fff_dead_beef), None);
    }

    #[test]
    fn an_id_set_finds_what_is_in_it_however_often_it_changes() {
        let set = IdSet::new();
        for round in 0..10_000 {
            assert!(set.insert(100 + round));
            assert!(set.insert(100 + round + IdSet::SIZE as i32));
            assert!(
                set.place(100 + round).is_some() && set.place(100 + round + IdSet::SIZE as i32).is_some()
            );
            set.remove(100 + round);
            assert!(set.place(100 + round).is_none());
            set.remove(100 + round + IdSet::SIZE as i32);
        }
        assert!(set.insert(7));
        set.clear();
        assert!(set.place(7).is_none());
    }
}
