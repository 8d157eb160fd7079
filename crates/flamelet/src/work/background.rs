//! Work on its own thread: a future awaits it, and dropping the future cancels it.
//!
//! This is all that flamelet needs from an async runtime, so it works with any of them.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
#[cfg(any(feature = "cpu", feature = "heap", target_os = "linux"))]
use std::time::{Duration, Instant};

#[cfg(any(feature = "cpu", feature = "heap", target_os = "linux"))]
use flamelet_capture::own_threads::unseen;

use crate::work::lock::lock;
use crate::{Error, ErrorKind, Result};

/// Tells work that its result is no longer wanted, or wanted at once. Takes no lock, so that the child of a fork can drop
/// what it copied.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    /// How much of the result is wanted: [`ALL`], [`SO_FAR`] or [`NOTHING`].
    wanted: AtomicU8,
    /// The thread that works; set when it sleeps for the first time.
    worker: OnceLock<Thread>,
}

const ALL: u8 = 0;
/// What there is so far: the service ends.
const SO_FAR: u8 = 1;
const NOTHING: u8 = 2;

impl Cancel {
    pub(crate) fn cancel(&self) {
        self.want(NOTHING);
    }

    /// Lets the work end early with the result that it has.
    pub(crate) fn end(&self) {
        self.want(SO_FAR);
    }

    fn want(&self, less: u8) {
        self.wanted.fetch_max(less, Ordering::SeqCst);
        // Either this sees the worker, or the worker sees what is wanted.
        fence(Ordering::SeqCst);
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) == NOTHING
    }

    /// Returns whether the work should end now, with or without its result.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_ended(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) != ALL
    }

    /// Waits for `duration`, or until the work should end early; returns an error if it is cancelled meanwhile. Only the
    /// thread that works calls it.
    #[cfg(any(feature = "cpu", feature = "heap", target_os = "linux"))]
    pub(crate) fn sleep(&self, duration: Duration) -> Result<()> {
        let end = Instant::now().checked_add(duration);
        self.worker.get_or_init(std::thread::current);
        fence(Ordering::SeqCst);
        loop {
            match self.wanted.load(Ordering::SeqCst) {
                NOTHING => return Err(cancelled()),
                SO_FAR => return Ok(()),
                _ => {}
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            unseen(|| std::thread::park_timeout(left.min(Duration::from_secs(3600))));
        }
    }
}

/// Returns the error of work that was cancelled.
pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the capture was cancelled")
}

/// The result of work on another thread. Dropping it cancels the work.
#[derive(Debug)]
#[must_use = "the work is cancelled when this is dropped"]
pub(crate) struct Background<T> {
    shared: Arc<SharedWork<T>>,
}

#[derive(Debug)]
struct SharedWork<T> {
    cancel: Arc<Cancel>,
    state: Mutex<WorkState<T>>,
}

#[derive(Debug)]
struct WorkState<T> {
    outcome: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Starts `work` on a thread called `name`. A panic in it becomes an error.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(&Arc<Cancel>) -> T + Send + 'static,
) -> Result<Background<T>> {
    let state = Mutex::new(WorkState { outcome: None, waker: None });
    let shared = Arc::new(SharedWork { cancel: Arc::default(), state });
    let theirs = shared.clone();
    let run = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&theirs.cancel)));
        let outcome = outcome.map_err(|_| {
            Error::new(
                ErrorKind::Internal,
                "the capture failed (a panic in flamelet; its message is on standard error)",
            )
        });
        let mut state = lock(&theirs.state);
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    };
    match flamelet_capture::own_threads::spawn(name, run) {
        Ok(_) => Ok(Background { shared }),
        Err(error) => {
            Err(Error::new(ErrorKind::Denied, format!("cannot start a thread for the capture: {error}")))
        }
    }
}

impl<T> Future for Background<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = lock(&self.shared.state);
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
    }
}

#[cfg(all(test, any(feature = "cpu", feature = "heap")))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Wake;

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wait_for<T>(mut task: Background<T>) -> Result<T> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut task).poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[test]
    fn the_result_arrives_and_a_panic_is_an_error() {
        assert_eq!(wait_for(spawn("t", |_| 42).expect("a thread")).expect("no panic"), 42);
        let failed = wait_for(spawn("t", |_| -> u8 { panic!("as the test wants") }).expect("a thread"));
        assert_eq!(failed.expect_err("panicked").kind(), ErrorKind::Internal);
    }

    #[test]
    fn dropping_the_future_ends_the_work() {
        let (sender, receiver) = mpsc::channel();
        let task = spawn("t", move |cancel| sender.send(cancel.sleep(Duration::MAX).is_err()));
        drop(task.expect("a thread"));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
