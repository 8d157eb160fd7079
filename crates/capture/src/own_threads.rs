//! The threads that flamelet starts inside a program.
//!
//! They take no signals that are meant for the program: see [`flamelet_unwind::live::spawn`]. The one exception is
//! the sampler's own, once its handler is installed: what these threads do is sampled like all other work, and under
//! `setitimer` a thread that blocked the signal would make the kernel wake another one to take it.

use std::cell::Cell;
use std::io;
use std::thread::JoinHandle;

/// Starts `work` on a thread called `name` that takes none of the program's signals. Every thread that flamelet has
/// in a program is started by this function.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with_stack(name, None, work)
}

/// Does the same with a stack of this many bytes.
pub(crate) fn spawn_with_stack<T: Send + 'static>(
    name: &str,
    stack_size: Option<usize>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    SPAWNING.set(true);
    #[cfg(target_os = "linux")]
    let counted = counted::CountedThread::new();
    let spawned = flamelet_unwind::live::spawn(name, stack_size, move || {
        #[cfg(target_os = "linux")]
        let _counted = counted;
        #[cfg(target_os = "linux")]
        sampled::begin();
        work()
    });
    SPAWNING.set(false);
    spawned
}

/// Returns whether this thread is just starting a thread of flamelet's.
pub fn is_spawning() -> bool {
    SPAWNING.get()
}

/// How the names of all threads of flamelet begin.
pub(crate) const PREFIX: &str = "flamelet";

thread_local! {
    static UNSEEN: Cell<u32> = const { Cell::new(0) };
    static SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which may wait, without counting its waits in lock profiles: they are flamelet's own.
#[inline]
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    let _unseen = Unseen::enter();
    work()
}

/// Returns whether the waits of this thread are flamelet's own now. Async-signal-safe.
#[cfg(target_os = "linux")]
pub(crate) fn is_unseen() -> bool {
    UNSEEN.get() > 0 || sampled::is_own()
}

struct Unseen;

impl Unseen {
    #[inline]
    fn enter() -> Self {
        UNSEEN.set(UNSEEN.get() + 1);
        Self
    }
}

impl Drop for Unseen {
    #[inline]
    fn drop(&mut self) {
        UNSEEN.set(UNSEEN.get() - 1);
    }
}

#[cfg(target_os = "linux")]
pub use counted::running;
#[cfg(target_os = "linux")]
pub(crate) use sampled::{admit, let_samples_in};

#[cfg(target_os = "linux")]
mod counted {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use flamelet_unwind::fork::PerProcess;

    static RUNNING: PerProcess<AtomicUsize> = PerProcess::new();

    fn counter() -> &'static AtomicUsize {
        RUNNING.get(|_| AtomicUsize::new(0))
    }

    /// Returns how many threads flamelet has in this process, from their start until just before their end.
    pub fn running() -> usize {
        counter().load(Ordering::Acquire)
    }

    /// Counts a thread as running as long as it lives.
    pub(super) struct CountedThread(&'static AtomicUsize);

    impl CountedThread {
        pub(super) fn new() -> Self {
            let counter = counter();
            counter.fetch_add(1, Ordering::AcqRel);
            Self(counter)
        }
    }

    impl Drop for CountedThread {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(target_os = "linux")]
mod sampled {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// The sampler's signal, once it has a handler; 0 before.
    static ADMITTED: AtomicI32 = AtomicI32::new(0);

    thread_local! {
        static IS_OWN: Cell<bool> = const { Cell::new(false) };
    }

    /// Called on a new thread of ours.
    pub(super) fn begin() {
        IS_OWN.set(true);
        let_samples_in();
    }

    /// Returns whether the running thread is flamelet's own. Async-signal-safe.
    pub(super) fn is_own() -> bool {
        IS_OWN.get()
    }

    /// Notes that `signal` has a handler from now on: new threads of ours take it, and the running one if it is ours.
    pub(crate) fn admit(signal: libc::c_int) {
        ADMITTED.store(signal, Ordering::Release);
        let_samples_in();
    }

    /// Lets the running thread take the sampler's signal if that has a handler and the thread is ours: what other
    /// threads block is the program's decision.
    pub(crate) fn let_samples_in() {
        let signal = ADMITTED.load(Ordering::Acquire);
        if signal != 0 && IS_OWN.get() {
            // SAFETY: a set is filled, and applied to this thread.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, signal);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            }
        }
    }
}
