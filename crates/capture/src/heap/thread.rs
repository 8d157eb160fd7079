//! What each thread keeps: how many bytes it may still allocate before it has to take the slow path.
//!
//! ```text
//!  alloc(size):  countdown -= size;  still ≥ 0 ─► straight to the inner allocator   (nearly always)
//!                                    below 0   ─► decide(): a sample is due, or the countdown was only a
//!                                                 part of the distance, or the settings changed
//! ```
//!
//! A distance is counted down in parts of at most [`TICK`] bytes, so that a thread soon learns about new settings.
//! Because distances have no memory, the rest of one may be redrawn whenever the mean changes.
//!
//! Nothing here has a destructor: an allocator is called before and after a thread's destructors run.

use super::interval;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A thread checks for changed settings at least once per this many allocated bytes.
const TICK: i64 = 256 << 10;

/// Sampled blocks are aligned to this, so that a free recognises candidates by their address.
pub(super) const PAGE: usize = 4096;

/// Blocks of this size and larger are recognised by size instead: aligning them would keep allocators from growing
/// them in place.
pub(super) const LARGE: usize = 1 << 20;

/// A countdown below 0 that stays so, whatever is subtracted from it once: no request is larger than `isize::MAX`.
const NEVER_PASSES: i64 = -1;

static MEAN: AtomicU64 = AtomicU64::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Samples one byte in `mean` from now on; 0 stops sampling. The calling thread notices at its next allocation, the
/// others within [`TICK`] bytes.
pub(super) fn set_mean(mean: u64) {
    MEAN.store(mean, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Release);
    STATE.with(|state| {
        // What is left of the distance stays; only its current part ends here.
        let left = state.countdown.get().saturating_add(state.pending.get());
        let used = state.part.get() - state.countdown.get();
        if state.mask.get() != 0 {
            state.before.set(state.before.get().wrapping_add(used as u64));
            state.part.set(0);
            state.countdown.set(0);
            state.pending.set(left);
        }
    });
}

/// The mean that is set; 0 when sampling is off.
pub(super) fn mean() -> u64 {
    MEAN.load(Ordering::Relaxed)
}

struct ThreadState {
    /// Bytes until the next call of [`decide`].
    countdown: Cell<i64>,
    /// A block whose address has none of these bits may be tracked. 0 while every free must be seen.
    mask: Cell<usize>,
    /// What the countdown started from.
    part: Cell<i64>,
    /// What is left of the distance beyond this part.
    pending: Cell<i64>,
    /// The mean of the current distance; 0 when it never ends.
    mean: Cell<u64>,
    /// Bytes allocated before the countdown started.
    before: Cell<u64>,
    random: Cell<u64>,
    generation: Cell<u32>,
    /// Whether the profiler itself is at work, which is not sampled.
    is_inside: Cell<bool>,
    /// The thread's last context, and when to look again.
    pub(super) context: Cell<u32>,
    pub(super) context_uses: Cell<u32>,
}

thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            countdown: Cell::new(0),
            mask: Cell::new(PAGE - 1),
            part: Cell::new(0),
            pending: Cell::new(0),
            mean: Cell::new(0),
            before: Cell::new(0),
            random: Cell::new(0),
            generation: Cell::new(0),
            is_inside: Cell::new(false),
            context: Cell::new(0),
            context_uses: Cell::new(0),
        }
    };
}

/// Counts an allocation; returns whether it may go straight to the inner allocator. If not, call [`decide`].
#[inline(always)]
pub(super) fn passes(size: usize) -> bool {
    STATE.with(|state| {
        let left = state.countdown.get().wrapping_sub(size as i64);
        state.countdown.set(left);
        left >= 0
    })
}

/// Returns whether the block may be tracked (or this thread's frees are being counted).
#[inline(always)]
pub(super) fn is_candidate(address: usize, size: usize) -> bool {
    STATE.with(|state| address & state.mask.get() == 0) || size >= LARGE
}

/// Does the work of [`passes`] for `size` and of [`is_candidate`] for the block, for a call that needs both: looking up the
/// thread's state is a good part of either.
#[inline(always)]
pub(super) fn passes_from(address: usize, known: usize, size: usize) -> (bool, bool) {
    STATE.with(|state| {
        let left = state.countdown.get().wrapping_sub(size as i64);
        state.countdown.set(left);
        (left >= 0, address & state.mask.get() == 0 || known >= LARGE)
    })
}

/// Returns whether every allocation and every free of this thread must be seen.
#[inline(always)]
pub(super) fn is_counting() -> bool {
    STATE.with(|state| state.mask.get() == 0)
}

/// Makes every allocation and free of this thread take the slow path, or stops doing so. Nothing is sampled on the
/// thread meanwhile.
pub(super) fn set_counting(is_counting: bool) {
    STATE.with(|state| {
        state.mask.set(if is_counting { 0 } else { PAGE - 1 });
        restart(state, 0);
        state.countdown.set(if is_counting { NEVER_PASSES } else { 0 });
        state.generation.set(0);
    });
}

/// Returns whether the allocation that did not pass is to be sampled, and the mean it was found with.
#[cold]
pub(super) fn decide(size: usize) -> Option<u64> {
    STATE.with(|state| {
        if state.mask.get() == 0 {
            state.countdown.set(NEVER_PASSES);
            return None;
        }
        // The request may be nearly as large as an integer can be.
        let used = state.part.get().wrapping_sub(state.countdown.get());
        state.before.set(state.before.get().wrapping_add(used as u64));
        let left = state.countdown.get() + state.pending.get();
        let generation = GENERATION.load(Ordering::Acquire);
        let is_new = state.generation.replace(generation) != generation;
        let due = match state.mean.get() {
            0 if is_new => due_in_new_distance(state, size),
            0 => {
                start(state, i64::MAX);
                None
            }
            mean if left < 0 => {
                draw(state);
                Some(mean).filter(|_| state.mean.get() != 0)
            }
            _ if is_new => {
                draw(state);
                None
            }
            _ => {
                start(state, left);
                None
            }
        };
        due.filter(|_| !state.is_inside.get())
    })
}

/// Handles the first allocation that counts, after sampling was off.
fn due_in_new_distance(state: &ThreadState, size: usize) -> Option<u64> {
    let distance = draw(state);
    let mean = state.mean.get();
    if mean == 0 {
        return None;
    }
    if distance < size as i64 {
        draw(state);
        return Some(mean);
    }
    start(state, distance - size as i64);
    None
}

/// Draws the next distance under the current settings and starts counting it.
fn draw(state: &ThreadState) -> i64 {
    let mean = mean();
    state.mean.set(mean);
    let mut random = match state.random.get() {
        0 => interval::mix(std::ptr::from_ref(state) as u64 ^ crate::clock::monotonic_nanos()),
        random => random,
    };
    let distance = if mean == 0 { i64::MAX } else { interval::next_distance(&mut random, mean) };
    state.random.set(random);
    start(state, distance);
    distance
}

fn start(state: &ThreadState, distance: i64) {
    let part = distance.min(TICK);
    state.part.set(part);
    state.countdown.set(part);
    state.pending.set(distance - part);
}

fn restart(state: &ThreadState, distance: i64) {
    state.mean.set(0);
    start(state, distance);
}

/// Returns the thread's number and how many bytes it has allocated so far: equal at two moments when nothing was
/// allocated in between.
pub(super) fn position() -> (u64, u64) {
    STATE.with(|state| {
        let used = state.part.get().wrapping_sub(state.countdown.get()) as u64;
        (std::ptr::from_ref(state) as u64, state.before.get().wrapping_add(used))
    })
}

/// Returns the context that [`remember_context`] stored, unless it is time to look again: names are set early in a
/// thread's life, so at first that is often.
pub(super) fn known_context() -> Option<u32> {
    STATE.with(|state| {
        let uses = state.context_uses.get().wrapping_add(1);
        state.context_uses.set(uses);
        let is_due = uses.is_power_of_two() || uses.is_multiple_of(64);
        Some(state.context.get()).filter(|&context| context != 0 && !is_due)
    })
}

/// Stores the context for [`known_context`].
pub(super) fn remember_context(context: u32) {
    STATE.with(|state| state.context.set(context));
}

/// While this lives, nothing that the thread allocates is sampled or counted.
pub(super) struct Inside {
    was_inside: bool,
}

impl Inside {
    pub(super) fn enter() -> Self {
        Self { was_inside: STATE.with(|state| state.is_inside.replace(true)) }
    }

    /// Enters, unless the thread is inside already.
    pub(super) fn enter_first() -> Option<Self> {
        (!is_inside()).then(Self::enter)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        STATE.with(|state| state.is_inside.set(self.was_inside));
    }
}

/// Returns whether the profiler itself is at work on this thread.
pub(super) fn is_inside() -> bool {
    STATE.with(|state| state.is_inside.get())
}
