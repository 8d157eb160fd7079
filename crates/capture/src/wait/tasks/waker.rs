//! The waker that a task's future gets: it wakes the executor's, and its clones show where the task awaits.

#![allow(unsafe_code, reason = "a waker with a table of functions of its own")]

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use flamelet_unwind::{Registers, live};

use super::super::delays::MAX_FRAMES;
use super::awaits;
use super::state::{AwaitPoint, State};
use crate::labels::LabelSet;

/// What a waker points to. It never changes.
pub(super) struct Node {
    /// The executor's waker.
    inner: Waker,
    state: Arc<State>,
}

impl Node {
    fn new(inner: &Waker, state: &Arc<State>) -> Arc<Self> {
        let inner = POLLING.with(|polling| polling.delegate(|| inner.clone()));
        Arc::new(Self { inner, state: state.clone() })
    }

    /// Returns the node for a poll with the executor's `waker`: the one of the `last` poll, if it wakes the same. A future
    /// that has seen a node does not clone its waker again, so a sampled poll needs a new one.
    pub(super) fn for_poll(
        last: Option<Arc<Self>>,
        is_sampled: bool,
        waker: &Waker,
        state: &Arc<State>,
    ) -> Arc<Self> {
        let known = last.filter(|node| !is_sampled && node.inner.will_wake(waker));
        known.unwrap_or_else(|| Self::new(waker, state))
    }

    fn wake(&self) {
        self.state.wake();
        self.inner.wake_by_ref();
    }
}

/// A waker for one poll, which borrows its node: a future that keeps it must clone it.
pub(super) struct Borrowed<'a> {
    waker: ManuallyDrop<Waker>,
    _node: &'a Arc<Node>,
}

impl<'a> Borrowed<'a> {
    pub(super) fn new(node: &'a Arc<Node>) -> Self {
        let raw = RawWaker::new(Arc::as_ptr(node).cast(), &FUNCTIONS);
        // SAFETY: the functions keep the contract of wakers; this one owns no reference, and is never dropped.
        Self { waker: ManuallyDrop::new(unsafe { Waker::from_raw(raw) }), _node: node }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.waker
    }
}

static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_node);

#[inline(never)]
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: `data` is from an `Arc` that lives as long as the waker.
    unsafe { Arc::increment_strong_count(data.cast::<Node>()) };
    if POLLING.with(|polling| polling.cloned(data)) {
        // SAFETY: as above.
        note_await(unsafe { &*data.cast::<Node>() });
    }
    RawWaker::new(data, &FUNCTIONS)
}

unsafe fn wake(data: *const ()) {
    POLLING.with(|polling| polling.dropped(data));
    // SAFETY: the waker owns a reference, which ends here.
    let node = unsafe { Arc::from_raw(data.cast::<Node>()) };
    node.wake();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker owns a reference, or borrows one.
    let node = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Node>()) });
    node.wake();
}

unsafe fn drop_node(data: *const ()) {
    POLLING.with(|polling| polling.dropped(data));
    // SAFETY: the waker owns a reference, which ends here.
    drop(unsafe { Arc::from_raw(data.cast::<Node>()) });
}

/// The sampled poll that this thread is in.
struct Polling {
    /// The node of its waker; null if there is none.
    node: Cell<*const ()>,
    /// Where the poll is, so that the frames of the executor below it can be left out.
    base: Cell<Option<Registers>>,
    /// The point of the first clone that is still there: that of the innermost future, as a rule.
    point: Cell<Option<AwaitPoint>>,
    /// How many clones of the poll are still there.
    clones: Cell<u32>,
    /// Whether any of them was made by something else than a task that this one polls.
    is_direct: Cell<bool>,
    /// Whether a task that is polled inside of this one is making its node.
    is_delegating: Cell<bool>,
}

impl Polling {
    /// Counts a clone of `node`; returns whether its stack is wanted.
    fn cloned(&self, node: *const ()) -> bool {
        if self.node.get() != node {
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
    fn dropped(&self, node: *const ()) {
        if self.node.get() == node {
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
            node: Cell::new(ptr::null()),
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
fn note_await(node: &Node) {
    let Some(awaits) = awaits() else { return };
    let mut frames = [0; MAX_FRAMES];
    let depth = live::unwind_here(&mut frames).depth;
    let base = POLLING.with(|polling| polling.base.get());
    let below = base.map_or(0, |base| live::unwind(&base, &mut [0; MAX_FRAMES]).depth);
    // A stack that is cut short is kept as it is.
    let end = if below < depth && depth < MAX_FRAMES { depth - below } else { depth };
    let stack = awaits.stack(&frames[OWN_FRAMES.min(end)..end]);
    let own = &node.state.labels;
    let (context, slow) = match own.is_current() {
        true => node.state.contexts(awaits, own),
        false => node.state.contexts(awaits, &LabelSet::current()),
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
    pub(super) fn begin(node: &Arc<Node>, base: Registers) -> Self {
        let node = Arc::as_ptr(node).cast();
        POLLING.with(|polling| Self {
            before: (
                polling.node.replace(node),
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
        let (node, base, point, clones, is_direct) = self.before;
        POLLING.with(|polling| {
            polling.node.set(node);
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
        let state = Arc::new(State::new(1, "model", LabelSet::EMPTY, StackNumber::NONE));
        let executors = [Arc::new(Executor::default()), Arc::new(Executor::default())];
        let wakers = executors.clone().map(Waker::from);
        let woken = || executors.clone().map(|executor| executor.0.load(Ordering::SeqCst));
        for keeps in [Keeps::UnlessSame, Keeps::Always, Keeps::CloneFrom] {
            for order in 0..4u32.pow(POLLS) {
                let (mut last, mut kept) = (None, None);
                for poll in 0..POLLS {
                    let choice = order >> (2 * poll) & 3;
                    let (executor, is_sampled) = ((choice & 1) as usize, choice & 2 != 0);
                    let node = Node::for_poll(last.take(), is_sampled, &wakers[executor], &state);
                    keeps.keep(&mut kept, &Borrowed::new(&node));
                    last = Some(node);
                    let mut expected = woken();
                    expected[executor] += 1;
                    let kept: &Waker = kept.as_ref().expect("kept");
                    kept.wake_by_ref();
                    assert_eq!(woken(), expected, "{keeps:?}, order {order:b}, poll {poll}");
                }
                let mut expected = woken();
                expected[(order >> (2 * (POLLS - 1)) & 1) as usize] += 1;
                // The task is dropped first, and the waker used up elsewhere.
                drop(last);
                std::thread::scope(|scope| {
                    if order % 512 == 0 {
                        scope.spawn(|| kept.take().expect("kept").wake());
                    } else {
                        kept.take().expect("kept").wake();
                    }
                });
                assert_eq!(woken(), expected);
            }
        }
        drop(wakers);
        // Nothing holds the executors any more: every node was freed.
        assert!(executors.iter().all(|executor| Arc::strong_count(executor) == 1));
        assert_eq!(Arc::strong_count(&state), 1);
    }
}
