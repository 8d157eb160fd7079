//! The stack and the labels of another thread, taken by a signal that the thread handles.
//!
//! One stack at a time: whoever asks holds a lock, sends the signal and waits for the answer, for a bounded time. A
//! thread that blocks the signal, or that the kernel does not run in time, has no stack.
//!
//! The signal ends no program: its handler is installed before the first is sent and stays. System calls that it
//! interrupts go on (`SA_RESTART`), but for those that the kernel never restarts, such as `epoll_wait` and
//! `nanosleep`, which return `EINTR`: std and the async runtimes expect that.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flamelet_unwind::fork::Lock;
use flamelet_unwind::{Registers, live};

use super::delays::MAX_FRAMES;
use crate::labels::{self, LabelSet};
use crate::threads::{self, Tid};
use crate::{Error, ErrorKind, Result};

/// How long a thread may take to answer.
const PATIENCE: Duration = Duration::from_millis(20);

/// The states of a request.
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERING: u32 = 2;
const ANSWERED: u32 = 3;

static ASKING: Lock<()> = Lock::new(());
static SIGNAL: AtomicI32 = AtomicI32::new(0);

static REQUEST: StackRequest = StackRequest {
    state: AtomicU32::new(IDLE),
    thread: AtomicI32::new(0),
    labels: AtomicU32::new(0),
    depth: AtomicUsize::new(0),
    frames: UnsafeCell::new([0; MAX_FRAMES]),
};

struct StackRequest {
    state: AtomicU32,
    /// Which thread is asked.
    thread: AtomicI32,
    /// The number of its labels.
    labels: AtomicU32,
    depth: AtomicUsize,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
}

// SAFETY: the frames are written by the one handler that takes the state from ASKED to ANSWERING, and read by the holder
// of the lock when it is ANSWERED.
unsafe impl Sync for StackRequest {}

/// Installs the handler. Fails if the program uses all real-time signals.
pub(super) fn prepare() -> Result<()> {
    crate::loaded_modules::refresh()?;
    let _asking = ASKING.lock();
    if SIGNAL.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let signals = (libc::SIGRTMIN() + 1..libc::SIGRTMAX()).rev();
    let Some(signal) = signals.into_iter().find(|&signal| is_unused(signal)) else {
        return Err(Error::new(
            ErrorKind::Denied,
            "no signal is free: the program handles all real-time signals",
        ));
    };
    install(signal)?;
    SIGNAL.store(signal, Ordering::Release);
    Ok(())
}

fn is_unused(signal: libc::c_int) -> bool {
    // SAFETY: reads the disposition into a structure that it fits.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_DFL
    }
}

fn install(signal: libc::c_int) -> Result<()> {
    // As for CPU samples: without optimization the handler does not fit on the alternate stack.
    let stack = if cfg!(unoptimized) { 0 } else { libc::SA_ONSTACK };
    // SAFETY: a handler of the right type, with all signals blocked while it runs.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | stack;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    match installed {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Denied, format!("cannot handle signal {signal}"))),
    }
}

/// Writes the stack of `thread`, leaf first, to `frames`; returns the labels of the thread if it has answered in time. Call
/// [`prepare`] first.
pub(super) fn take(thread: Tid, frames: &mut Vec<u64>) -> Option<LabelSet> {
    frames.clear();
    let signal = SIGNAL.load(Ordering::Acquire);
    if signal == 0 || thread == threads::this_thread() {
        return None;
    }
    let _asking = ASKING.lock();
    let before = labels::Moment::now();
    REQUEST.thread.store(thread, Ordering::Relaxed);
    REQUEST.state.store(ASKED, Ordering::Release);
    // SAFETY: sends a signal that has a handler; a thread that is gone makes it fail.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
    let mut answer = None;
    if sent == 0 && wait_for_answer() {
        let depth = REQUEST.depth.load(Ordering::Relaxed);
        // SAFETY: answered, so no handler writes.
        frames.extend_from_slice(unsafe { &(&(*REQUEST.frames.get()))[..depth.min(MAX_FRAMES)] });
        answer = Some(before.resolve(REQUEST.labels.load(Ordering::Relaxed)));
    }
    REQUEST.state.store(IDLE, Ordering::Release);
    answer
}

/// Waits until the request is answered; after some time it is withdrawn.
fn wait_for_answer() -> bool {
    let start = Instant::now();
    let mut looks = 0u32;
    while REQUEST.state.load(Ordering::Acquire) != ANSWERED {
        if start.elapsed() > PATIENCE
            && REQUEST.state.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return false;
        }
        looks += 1;
        match looks {
            0..50 => std::hint::spin_loop(),
            _ => std::thread::sleep(Duration::from_micros(20)),
        }
    }
    true
}

/// Answers, if this thread is asked. Async-signal-safe.
extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if REQUEST.thread.load(Ordering::Relaxed) != threads::this_thread()
        || REQUEST.state.compare_exchange(ASKED, ANSWERING, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        return;
    }
    // SAFETY: `errno` of this thread, which is put back.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel's third argument is the interrupted context.
    let registers = Registers::of_context(unsafe { &*context.cast::<libc::ucontext_t>() });
    // SAFETY: this handler alone has the state ANSWERING.
    let frames = unsafe { &mut *REQUEST.frames.get() };
    let depth = live::unwind(&registers, frames).depth;
    REQUEST.depth.store(depth, Ordering::Relaxed);
    REQUEST.labels.store(labels::current_id(), Ordering::Relaxed);
    REQUEST.state.store(ANSWERED, Ordering::Release);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
