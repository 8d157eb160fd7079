//! Work on its own thread: a future awaits it, and dropping the future cancels it.
//!
//! This is all that flamelet needs from an async runtime, so it works with any of them.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
#[cfg(any(feature = "cpu", feature = "heap"))]
use std::sync::PoisonError;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
#[cfg(any(feature = "cpu", feature = "heap"))]
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::{Error, ErrorKind, Result};

/// Tells work that its result is no longer wanted.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Cancel {
    pub(crate) fn cancel(&self) {
        *lock(&self.is_cancelled) = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *lock(&self.is_cancelled)
    }

    /// Waits for `duration`; returns an error if it is cancelled meanwhile.
    #[cfg(any(feature = "cpu", feature = "heap"))]
    pub(crate) fn sleep(&self, duration: Duration) -> Result<()> {
        let end = Instant::now().checked_add(duration);
        let mut is_cancelled = lock(&self.is_cancelled);
        loop {
            if *is_cancelled {
                return Err(cancelled());
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            let step = left.min(Duration::from_secs(3600));
            let waited = self.changed.wait_timeout(is_cancelled, step);
            is_cancelled = waited.unwrap_or_else(PoisonError::into_inner).0;
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
pub(crate) struct Task<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    cancel: Arc<Cancel>,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    outcome: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Starts `work` on a thread called `name`. A panic in it becomes an error.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(&Arc<Cancel>) -> T + Send + 'static,
) -> Result<Task<T>> {
    let state = Mutex::new(State { outcome: None, waker: None });
    let shared = Arc::new(Shared { cancel: Arc::default(), state });
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
        Ok(_) => Ok(Task { shared }),
        Err(error) => Err(Error::new(ErrorKind::Denied, format!("no thread for the capture: {error}"))),
    }
}

impl<T> Future for Task<T> {
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

impl<T> Drop for Task<T> {
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

    fn wait_for<T>(mut task: Task<T>) -> Result<T> {
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
