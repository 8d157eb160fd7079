//! Threads that the profiler starts inside a program.
//!
//! A signal to the process goes to any thread that does not block it. A program that blocks signals on all of its
//! threads, to take them by `sigwait` or `signalfd`, does not know ours, and a signal that the kernel gives to one of
//! them would kill it. So our threads block all signals, from before they exist: the mask is inherited, and set on
//! the thread that starts them only for that moment.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Signals that the running instruction or `abort` raises. Blocked, they would kill the process anyway, bypassing any
/// handler that the program has for them.
#[cfg(unix)]
const SYNCHRONOUS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

/// Starts `work` on a thread called `name` that blocks every signal from elsewhere. Those of the C library reach it:
/// `setuid`, for one, waits until all threads have handled them. Without a `stack_size` the stack has the usual size.
pub fn spawn<T: Send + 'static>(
    name: &str,
    stack_size: Option<usize>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name.to_owned());
    let builder = stack_size.into_iter().fold(builder, Builder::stack_size);
    #[cfg(unix)]
    let _blocked = Blocked::new();
    builder.spawn(work)
}

/// While it lives, the running thread blocks the signals.
#[cfg(unix)]
struct Blocked {
    before: libc::sigset_t,
}

#[cfg(unix)]
impl Blocked {
    fn new() -> Self {
        // SAFETY: plain C structures, filled by the C library (which leaves out its own signals), applied to this
        // thread.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            for signal in SYNCHRONOUS {
                libc::sigdelset(&raw mut all, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

#[cfg(unix)]
impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: restores what this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        // SAFETY: reads this thread's mask.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    const FROM_ELSEWHERE: [libc::c_int; 6] =
        [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD, libc::SIGPROF];

    #[test]
    fn the_new_thread_blocks_signals_and_the_one_that_starts_it_does_not() {
        let masks = || (FROM_ELSEWHERE.map(is_blocked), SYNCHRONOUS.map(is_blocked));
        let before = masks();
        let started = spawn("quiet", None, masks).expect("a thread");
        assert_eq!(masks(), before);
        assert_eq!(started.join().expect("no panic"), ([true; 6], [false; 7]));
    }

    #[test]
    fn a_thread_that_cannot_be_leaves_the_mask_as_it_was() {
        let before = FROM_ELSEWHERE.map(is_blocked);
        let refused = spawn("huge", Some(usize::MAX / 2), || ());
        assert!(refused.is_err());
        let panicked = std::panic::catch_unwind(|| spawn("zero \0 in it", None, || ()));
        assert!(panicked.is_err());
        assert_eq!(FROM_ELSEWHERE.map(is_blocked), before);
    }

    #[test]
    fn the_name_and_the_stack_are_as_asked_for() {
        let name = || std::thread::current().name().map(str::to_owned);
        let started = spawn("a name", Some(256 << 10), name).expect("a thread");
        assert_eq!(started.join().expect("no panic").as_deref(), Some("a name"));
    }
}
