//! What the library keeps for each thread besides the words of its slot.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use flamelet_preload_ledger::LANES;
use flamelet_unwind::fork::Lock;

use crate::errno::Errno;
use crate::file;
use crate::slot::{Inside, ThreadSlot, slot};
use crate::walker::Walker;

/// What does not fit into the slot; passed on to another thread when its thread ends, with its lane.
pub(crate) struct ThreadStore {
    lane: u32,
    pub(crate) walker: Walker,
    /// For distances between samples.
    pub(crate) random: u64,
    next_idle: *mut ThreadStore,
}

/// States without a thread, in a linked list.
struct Idle(*mut ThreadStore);
// SAFETY: what is on the list belongs to the thread that holds its lock.
unsafe impl Send for Idle {}
static IDLE: Lock<Idle> = Lock::new(Idle(ptr::null_mut()));

/// How many lanes are in use, the shared one included.
pub(crate) static LANES_USED: AtomicU32 = AtomicU32::new(1);
/// Once there are this many nodes, new threads share a lane: each lane has nodes of its own.
const MANY_NODES: u64 = 1 << 18;

/// One more than the key whose destructor runs when a thread ends; 0 for none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Prepares for threads that end. Called once, inside the library.
pub(crate) fn start() {
    let mut key = 0;
    // SAFETY: the destructor has the type that is wanted, and stays loaded as long as the program.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

/// Called in a forked child.
pub(crate) fn reset_in_child() {
    if IDLE.reset_in_child() {
        // The list may be half written; what is on it is lost, which is little.
        IDLE.lock().0 = ptr::null_mut();
    }
}

/// In a forked child: forgets the remembered frames of this thread, which have nodes of the parent's tree.
pub(crate) fn forget_nodes() {
    let slot = slot();
    if slot.has_state() {
        slot.state().walker.forget();
    }
}

impl ThreadSlot {
    /// Returns whether this thread has made any allocation that was looked at.
    #[inline]
    pub(crate) fn has_state(&self) -> bool {
        !self.state.get().is_null()
    }

    /// Returns this thread's state. Call it only inside the library, and never twice at a time.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "one caller at a time, marked by `inside`")]
    pub(crate) fn state(&self) -> &mut ThreadStore {
        if self.state.get().is_null() {
            self.make_state();
        }
        // SAFETY: just made, or made before; only this thread has it, and it uses one reference at a time.
        unsafe { &mut *self.state.get().cast() }
    }

    #[cold]
    fn make_state(&self) {
        let _errno = Errno::keep();
        let idle = {
            let mut list = IDLE.lock();
            let idle = list.0;
            if !idle.is_null() {
                // SAFETY: what is on the list has no other owner, and we hold its lock.
                list.0 = unsafe { (*idle).next_idle };
            }
            idle
        };
        let state = if idle.is_null() {
            let (lane, next_idle) = (new_lane(), ptr::null_mut());
            let random = self as *const Self as u64 ^ u64::from(std::process::id()) << 32;
            Box::into_raw(Box::new(ThreadStore { lane, walker: Walker::new(lane), random, next_idle }))
        } else {
            idle
        };
        // SAFETY: ours now.
        unsafe {
            (*state).walker.forget();
            self.lane.set((*state).lane);
        }
        self.state.set(state.cast());
        let key = KEY.load(Ordering::Relaxed);
        if key != 0 {
            // SAFETY: the key was made by `start`.
            unsafe { libc::pthread_setspecific(key - 1, state.cast()) };
        }
    }
}

/// Returns a lane that no other thread has, or the shared one.
fn new_lane() -> u32 {
    let is_free = |used: u32| ((used as usize) < LANES).then_some(used + 1);
    let has_room = file::header().nodes.load(Ordering::Relaxed) < MANY_NODES;
    let lane = || LANES_USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).ok();
    has_room.then(lane).flatten().unwrap_or(0)
}

unsafe extern "C" fn thread_ends(state: *mut c_void) {
    let state: *mut ThreadStore = state.cast();
    let slot = slot();
    // A signal handler that allocates while we hold the lock must not wait for it.
    let before = slot.inside.replace(Inside::Recording);
    slot.state.set(ptr::null_mut());
    slot.lane.set(0);
    {
        let mut list = IDLE.lock();
        // SAFETY: the state of an ending thread has no other owner, and we hold the list's lock.
        unsafe { (*state).next_idle = list.0 };
        list.0 = state;
    }
    slot.inside.set(before);
}
