//! What the profiler does when its process forks, in one place and in one order.
//!
//! A fork copies the memory but only the thread that forked: locks that other threads held stay locked in the child,
//! and what they were changing stays half changed. Each part of the profiler registers once, with [`watch`], what it
//! does about that. The C library knows a single set of functions, which calls the parts:
//!
//! ```text
//!  before the fork      Recorder, Heap, Polls, Waits, Sampler, Labels, Modules     upper parts first: they use the lower ones
//!  after, in the parent Modules, Labels, Sampler, Waits, Polls, Heap, Recorder
//!  after, in the child  Modules, Labels, Sampler, Waits, Polls, Heap, Recorder     lower parts are ready for the upper ones
//! ```
//!
//! Nothing here allocates, waits for long or uses thread-local memory, which a library may get only by allocating. A
//! library that is unloaded takes its set of functions with it: the C library forgets them.
//!
//! A part that starts watching while a fork is under way may miss it, and a `clone` that does not go through the C
//! library is always missed. So [`PerProcess`] and [`Lock`] also check which process they are in.

mod held;
mod lock;
mod mark;
mod per_process;

pub use held::HeldThroughFork;
pub use lock::{Guard, Lock};
pub use mark::forks;
pub use per_process::PerProcess;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The parts of the profiler that a fork concerns. Each uses the ones listed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The published modules of this process, in this crate.
    Modules,
    /// The labels of threads.
    Labels,
    /// The CPU sampler.
    Sampler,
    /// The threads that wait for locks.
    Waits,
    /// The threads that poll tasks.
    Polls,
    /// The heap sampler.
    Heap,
    /// The library that `record` puts into a program.
    Recorder,
}

const PARTS: usize = Part::Recorder as usize + 1;

/// What a part does around a fork, on the thread that forks. `in_parent` and `in_child` may be called without
/// `before`, when the part starts watching during a fork.
#[derive(Debug)]
pub struct Handlers {
    /// Before the process is copied.
    pub before: fn(),
    /// Afterwards, in the parent.
    pub in_parent: fn(),
    /// Afterwards, in the child, once and before anything else runs there.
    pub in_child: fn(),
}

impl Handlers {
    /// Makes handlers for a part that only has to act in the child.
    pub const fn in_child(in_child: fn()) -> Self {
        Self { before: || {}, in_parent: || {}, in_child }
    }
}

static WATCHING: [AtomicPtr<Handlers>; PARTS] = [const { AtomicPtr::new(ptr::null_mut()) }; PARTS];
/// Whether the handlers for the child have run since the last fork began.
static IS_CHILD_DONE: AtomicBool = AtomicBool::new(false);

/// Calls the handlers of `part` around every fork from now on. Call it before there is anything that a child must not
/// share; further calls for the same part change nothing.
pub fn watch(part: Part, handlers: &'static Handlers) {
    WATCHING[part as usize].store(ptr::from_ref(handlers).cast_mut(), Ordering::Release);
    register();
}

/// Lets the C library call the functions below, from the first call on.
fn register() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Threads that arrive first at the same time may all register the functions, which may be called twice. A thread
    // that waited for another one here might wait forever in a child.
    if !IS_REGISTERED.load(Ordering::Acquire) {
        mark::prepare();
        // SAFETY: registers functions of the right type.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        IS_REGISTERED.store(true, Ordering::Release);
    }
}

fn watching() -> impl DoubleEndedIterator<Item = &'static Handlers> {
    // SAFETY: null, or from a reference to a static value that was passed to `watch`.
    WATCHING.iter().filter_map(|part| unsafe { part.load(Ordering::Acquire).as_ref() })
}

unsafe extern "C" fn before() {
    IS_CHILD_DONE.store(false, Ordering::Relaxed);
    watching().rev().for_each(|part| (part.before)());
}

unsafe extern "C" fn in_parent() {
    watching().for_each(|part| (part.in_parent)());
}

unsafe extern "C" fn in_child() {
    if !IS_CHILD_DONE.swap(true, Ordering::Relaxed) {
        mark::count_fork();
        watching().for_each(|part| (part.in_child)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_test_support::holds_in_child;
    use std::cell::RefCell;

    thread_local! {
        /// The calls made for this thread's forks: other tests fork, too.
        static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn call(name: &'static str) {
        CALLS.with_borrow_mut(|calls| calls.push(name));
    }

    static LABELS: Handlers = Handlers {
        before: || call("before labels"),
        in_parent: || call("parent labels"),
        in_child: || call("child labels"),
    };
    static HEAP: Handlers = Handlers {
        before: || call("before heap"),
        in_parent: || call("parent heap"),
        in_child: || call("child heap"),
    };

    #[test]
    fn parts_are_called_in_their_order_and_once_in_a_child() {
        // The upper part first: the order of watching does not matter.
        watch(Part::Heap, &HEAP);
        watch(Part::Labels, &LABELS);
        watch(Part::Labels, &LABELS);
        let is_in_order = holds_in_child(|| {
            // As if two threads had registered the functions.
            // SAFETY: they have no requirements.
            unsafe { in_child() };
            CALLS.take() == ["before heap", "before labels", "child labels", "child heap"]
        });
        assert!(is_in_order);
        assert_eq!(CALLS.take(), ["before heap", "before labels", "parent labels", "parent heap"]);
    }
}
