//! Whether anything is recorded, and from when on.

use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use flamelet_preload_ledger::{env, place};
use flamelet_unwind::fork::{Handlers, Part, watch};

use crate::slot::{Inside, on_own_behalf, slot};
use crate::{blocks, file, fork, next, thread, walker};

/// Bytes between samples; 0 to record everything.
pub(crate) static MEAN: AtomicU64 = AtomicU64::new(0);
/// The C library's flag that there is only one thread; null where it has none.
pub(crate) static IS_ALONE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

const UNSTARTED: u8 = 0;
const STARTING: u8 = 1;
const RECORDING: u8 = 2;
const OFF: u8 = 3;
const FORKED: u8 = 4;
static STATE: AtomicU8 = AtomicU8::new(UNSTARTED);

#[inline(always)]
pub(crate) fn is_recording() -> bool {
    STATE.load(Ordering::Acquire) == RECORDING
}

/// Starts with the very first call, and again in a forked child. Returns whether recording has begun.
#[cold]
pub(crate) fn begin() -> bool {
    if next::is_looking() {
        return false;
    }
    let state = STATE.load(Ordering::Acquire);
    if state == FORKED && slot().inside.get() == Inside::Recording {
        // Forked by a signal handler in the middle of recording, which still uses nodes of the parent's tree.
        return false;
    }
    let start: fn() -> bool = match state {
        UNSTARTED => start,
        FORKED => fork::settle,
        _ => return false,
    };
    if STATE.compare_exchange(state, STARTING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    let has_begun = on_own_behalf(start);
    STATE.store(if has_begun { RECORDING } else { OFF }, Ordering::Release);
    has_begun
}

/// In the child of a fork the first call starts files of its own. Most children only `exec`.
static AT_FORK: Handlers = Handlers::in_child(|| {
    fork::reset_locks();
    if matches!(STATE.load(Ordering::Relaxed), RECORDING | FORKED) {
        STATE.store(FORKED, Ordering::Release);
    } else {
        STATE.store(OFF, Ordering::Release);
    }
});

fn start() -> bool {
    let Some(folder) = std::env::var_os(env::FOLDER).map(PathBuf::from) else { return false };
    let mean = std::env::var(env::MEAN).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if !place::is_trusted(&folder) || file::create(&folder, mean).is_err() {
        return false;
    }
    MEAN.store(mean, Ordering::Relaxed);
    // SAFETY: the name is a C string.
    let alone = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    IS_ALONE.store(alone.cast(), Ordering::Relaxed);
    blocks::start();
    thread::start();
    watch(Part::Recorder, &AT_FORK);
    walker::refresh();
    true
}
