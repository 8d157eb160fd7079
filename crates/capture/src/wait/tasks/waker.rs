//! The waker that a task's future gets: it wakes the executor's, and its clones show where the task awaits.

#![allow(unsafe_code, reason = "a waker with a table of functions of its own")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use flamelet_unwind::{End, Reason, Registers, live};

use super::super::delays::MAX_FRAMES;
use super::awaits;
use super::state::{AwaitPoint, State};
use crate::labels::LabelSet;

/// What a waker points to: it has one waker of the executor, which never changes once wakers are handed out.
trait Wakes {
    fn executor(&self) -> Option<&Waker>;

    fn state(&self) -> &State;

    fn functions() -> &'static RawWakerVTable;
}

impl Wakes for State {
    fn executor(&self) -> Option<&Waker> {
        self.executor.get()
    }

    fn state(&self) -> &State {
        self
    }

    fn functions() -> &'static RawWakerVTable {
        static FUNCTIONS: RawWakerVTable = table::<State>();
        &FUNCTIONS
    }
}

/// What the wakers of a task point to when another executor than the first polls it, or the same with another waker.
pub(super) struct Moved {
    executor: Waker,
    state: Arc<State>,
}

impl Wakes for Moved {
    fn executor(&self) -> Option<&Waker> {
        Some(&self.executor)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn functions() -> &'static RawWakerVTable {
        static FUNCTIONS: RawWakerVTable = table::<Moved>();
        &FUNCTIONS
    }
}

/// A waker for one poll, which borrows what it points to: a future that keeps it must clone it.
pub(super) struct Borrowed<'a> {
    waker: ManuallyDrop<Waker>,
    _target: PhantomData<&'a State>,
}

impl<'a> Borrowed<'a> {
    /// Returns the waker for a poll with the executor's `waker`. It is the same as that of the last poll if the executor's
    /// is and the `tag` is. A future that has seen a waker does not clone it again, so a sampled poll needs another tag.
    pub(super) fn for_poll(
        state: &'a Arc<State>,
        moved: &'a mut Option<Arc<Moved>>,
        tag: u8,
        waker: &Waker,
    ) -> Self {
        let first = match state.executor.get() {
            Some(first) => first,
            // SAFETY: this is the first poll. Only wakers of the task use the cell as well, and there is none yet.
            None => unsafe { state.executor.set(cloned(waker)) },
        };
        if first.will_wake(waker) {
            return Self::of(state, tag);
        }
        if moved.as_ref().is_none_or(|moved| !moved.executor.will_wake(waker)) {
            *moved = Some(Arc::new(Moved { executor: cloned(waker), state: state.clone() }));
        }
        match moved {
            Some(moved) => Self::of(moved, tag),
            None => Self::of(state, tag),
        }
    }

    fn of<T: Wakes>(target: &'a Arc<T>, tag: u8) -> Self {
        let data = Arc::as_ptr(target).cast::<()>();
        let raw = RawWaker::new(data.map_addr(|address| address | usize::from(tag) & TAGS), T::functions());
        // SAFETY: the functions keep the contract of wakers; this one owns no reference, and is never dropped.
        Self { waker: ManuallyDrop::new(unsafe { Waker::from_raw(raw) }), _target: PhantomData }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.waker
    }
}

/// Clones the executor's waker, which may be that of a task around this one.
fn cloned(waker: &Waker) -> Waker {
    POLLING.with(|polling| polling.delegate(|| waker.clone()))
}

/// The bits of a waker's pointer that tell polls apart.
const TAGS: usize = 7;
const _: () = assert!(align_of::<State>() > TAGS && align_of::<Moved>() > TAGS);

const fn table<T: Wakes>() -> RawWakerVTable {
    RawWakerVTable::new(clone::<T>, wake::<T>, wake_by_ref::<T>, drop_waker::<T>)
}

/// Returns what a waker points to.
fn target<T>(data: *const ()) -> *const T {
    data.map_addr(|address| address & !TAGS).cast()
}

#[inline(never)]
unsafe fn clone<T: Wakes>(data: *const ()) -> RawWaker {
    // SAFETY: the target is from an `Arc` that lives as long as the waker.
    unsafe { Arc::increment_strong_count(target::<T>(data)) };
    if POLLING.with(|polling| polling.cloned(data)) {
        // SAFETY: as above.
        note_await(unsafe { &*target::<T>(data) }.state());
    }
    RawWaker::new(data, T::functions())
}

unsafe fn wake<T: Wakes>(data: *const ()) {
    POLLING.with(|polling| polling.dropped(data));
    // SAFETY: the waker owns a reference, which ends here.
    woken(&*unsafe { Arc::from_raw(target::<T>(data)) });
}

unsafe fn wake_by_ref<T: Wakes>(data: *const ()) {
    // SAFETY: the waker owns a reference, or borrows one.
    woken(unsafe { &*target::<T>(data) });
}

unsafe fn drop_waker<T: Wakes>(data: *const ()) {
    POLLING.with(|polling| polling.dropped(data));
    // SAFETY: the waker owns a reference, which ends here.
    drop(unsafe { Arc::from_raw(target::<T>(data)) });
}

fn woken(target: &impl Wakes) {
    target.state().wake();
    if let Some(executor) = target.executor() {
        executor.wake_by_ref();
    }
}

/// The sampled poll that this thread is in.
struct Polling {
    /// What its waker points to, with the tag of the poll; null if there is none.
    waker: Cell<*const ()>,
    /// Where the poll is, so that the frames of the executor below it can be left out.
    base: Cell<Option<Registers>>,
    /// The point of the first clone that is still there: that of the innermost future, as a rule.
    point: Cell<Option<AwaitPoint>>,
    /// How many clones of the poll are still there.
    clones: Cell<u32>,
    /// Whether any of them was made by something else than a task that this one polls.
    is_direct: Cell<bool>,
    /// Whether a task that is polled inside of this one is cloning its waker.
    is_delegating: Cell<bool>,
}

impl Polling {
    /// Counts a clone of `waker`; returns whether its stack is wanted.
    fn cloned(&self, waker: *const ()) -> bool {
        if self.waker.get() != waker {
            return false;
        }
        self.clones.set(self.clones.get() + 1);
        self.is_direct.set(self.is_direct.get() || !self.is_delegating.get());
        self.point.get().is_none()
    }

    /// Clones the waker of the poll for a task inside of it.
    fn delegate(&self, clone: impl FnOnce() -> Waker) -> Waker {
        self.is_delegating.set(true);
        let waker = clone();
        self.is_delegating.set(false);
        waker
    }

    /// Counts a clone that is gone. When all are, the future that made them is over (a timer registers its waker before
    /// it finds out that it has run off), and the task awaits something else, if anything.
    fn dropped(&self, waker: *const ()) {
        if self.waker.get() == waker {
            self.clones.set(self.clones.get().saturating_sub(1));
            if self.clones.get() == 0 {
                self.point.set(None);
                self.is_direct.set(false);
            }
        }
    }
}

thread_local! {
    static POLLING: Polling = const {
        Polling {
            waker: Cell::new(ptr::null()),
            base: Cell::new(None),
            point: Cell::new(None),
            clones: Cell::new(0),
            is_direct: Cell::new(false),
            is_delegating: Cell::new(false),
        }
    };
}

/// The frames of this module on top of a stack: the functions that unwind and clone.
const OWN_FRAMES: usize = 2;

/// Keeps the stack of the running poll, from the future that clones the waker to the task.
#[cold]
#[inline(never)]
fn note_await(state: &State) {
    let Some(awaits) = awaits() else { return };
    let Some(poll) = POLLING.with(|polling| polling.base.get()) else { return };
    let mut frames = [0; MAX_FRAMES];
    let unwound = live::unwind_to(&poll, &Registers::here(), &mut frames);
    // The last frame is the task's own; a stack that is cut short before it is kept as it is.
    let is_whole = unwound.end == End::Truncated(Reason::OutOfStack);
    let end = unwound.depth - usize::from(is_whole);
    let stack = awaits.stack(&frames[OWN_FRAMES.min(end)..end]);
    let own = &state.labels;
    let (context, slow) = match own.is_current() {
        true => state.contexts(awaits, own),
        false => state.contexts(awaits, &LabelSet::current()),
    };
    let point = AwaitPoint { stack, context, slow, weight: 0 };
    POLLING.with(|polling| polling.point.set(Some(point)));
}

/// A sampled poll, as long as it lives. Polls nest: a task may poll another one.
pub(super) struct Sampled {
    before: (*const (), Option<Registers>, Option<AwaitPoint>, u32, bool),
}

impl Sampled {
    /// Begins a poll in the function whose registers are `base`.
    pub(super) fn begin(waker: &Waker, base: Registers) -> Self {
        POLLING.with(|polling| Self {
            before: (
                polling.waker.replace(waker.data()),
                polling.base.replace(Some(base)),
                polling.point.replace(None),
                polling.clones.replace(0),
                polling.is_direct.replace(false),
            ),
        })
    }

    /// Returns where the future awaits. Its poll stands for `weight` polls.
    pub(super) fn point(&self, weight: u64) -> AwaitPoint {
        POLLING.with(|polling| {
            let weight = if polling.is_direct.get() { weight } else { 0 };
            AwaitPoint { weight, ..polling.point.get().unwrap_or_default() }
        })
    }
}

impl Drop for Sampled {
    fn drop(&mut self) {
        let (waker, base, point, clones, is_direct) = self.before;
        POLLING.with(|polling| {
            polling.waker.set(waker);
            polling.base.set(base);
            polling.point.set(point);
            polling.clones.set(clones);
            polling.is_direct.set(is_direct);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::delays::StackNumber;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// An executor's waker, which counts.
    #[derive(Default)]
    struct Executor(AtomicUsize);

    impl Wake for Executor {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How a future keeps the waker that it is polled with. All three are in use.
    #[derive(Clone, Copy, Debug)]
    enum Keeps {
        /// A clone, unless the one it has wakes the same.
        UnlessSame,
        /// A new clone every time.
        Always,
        /// By `clone_from`, which may do either.
        CloneFrom,
    }

    impl Keeps {
        fn keep(self, kept: &mut Option<Waker>, waker: &Waker) {
            match (self, kept.as_mut()) {
                (Self::UnlessSame, Some(kept)) if kept.will_wake(waker) => {}
                (Self::CloneFrom, Some(kept)) => kept.clone_from(waker),
                _ => *kept = Some(waker.clone()),
            }
        }
    }

    /// Every order of polls, by either of two executors and sampled or not: after each of them, the waker that the
    /// future has kept wakes the executor that polled last, and it alone.
    #[test]
    fn no_order_of_polls_loses_a_wake_up() {
        const POLLS: u32 = 6;
        let executors = [Arc::new(Executor::default()), Arc::new(Executor::default())];
        let wakers = executors.clone().map(Waker::from);
        let woken = || executors.clone().map(|executor| executor.0.load(Ordering::SeqCst));
        for keeps in [Keeps::UnlessSame, Keeps::Always, Keeps::CloneFrom] {
            for order in 0..4u32.pow(POLLS) {
                let state = Arc::new(State::new(1, "model", LabelSet::EMPTY, StackNumber::NONE));
                let (mut moved, mut tag, mut kept) = (None, 0, None);
                for poll in 0..POLLS {
                    let choice = order >> (2 * poll) & 3;
                    let (executor, is_sampled) = ((choice & 1) as usize, choice & 2 != 0);
                    tag += u8::from(is_sampled);
                    let waker = Borrowed::for_poll(&state, &mut moved, tag, &wakers[executor]);
                    keeps.keep(&mut kept, &waker);
                    let mut expected = woken();
                    expected[executor] += 1;
                    let kept: &Waker = kept.as_ref().expect("kept");
                    kept.wake_by_ref();
                    assert_eq!(woken(), expected, "{keeps:?}, order {order:b}, poll {poll}");
                }
                let mut expected = woken();
                expected[(order >> (2 * (POLLS - 1)) & 1) as usize] += 1;
                // The task is dropped first, and the waker used up elsewhere.
                let is_freed = Arc::downgrade(&state);
                drop((state, moved));
                std::thread::scope(|scope| {
                    if order % 512 == 0 {
                        scope.spawn(|| kept.take().expect("kept").wake());
                    } else {
                        kept.take().expect("kept").wake();
                    }
                });
                assert_eq!(woken(), expected);
                assert_eq!(is_freed.strong_count(), 0);
            }
        }
        drop(wakers);
        // Nothing holds the executors any more: all that held their wakers was freed.
        assert!(executors.iter().all(|executor| Arc::strong_count(executor) == 1));
    }
}
