//! A thread of flamelet's that works until the profiler ends, and is given a moment to finish then.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use flamelet_capture::own_threads::unseen;

use crate::work::background::Cancel;
use crate::work::lock::ProcessMutex;
use crate::{Error, ErrorKind, Result};

pub(crate) struct OwnThread {
    cancel: Arc<Cancel>,
    /// Disconnected when the thread has ended; `None` in the child of a fork, which has no such thread.
    end: ProcessMutex<Option<Receiver<()>>>,
}

impl OwnThread {
    /// Starts `work` on a thread called `name`. `purpose` completes the error's sentence "cannot start the thread that …".
    pub(crate) fn start(
        name: &str,
        purpose: &str,
        work: impl FnOnce(&Cancel) + Send + 'static,
    ) -> Result<Self> {
        let cancel = Arc::<Cancel>::default();
        let (alive, end) = mpsc::channel::<()>();
        let theirs = cancel.clone();
        let run = move || {
            let _alive = alive;
            work(&theirs);
        };
        flamelet_capture::own_threads::spawn(name, run).map_err(|error| {
            Error::new(ErrorKind::Denied, format!("cannot start the thread that {purpose}: {error}"))
        })?;
        let thread = Self { cancel, end: ProcessMutex::new() };
        drop(thread.end.lock(|| Some(end)));
        Ok(thread)
    }

    /// Tells the thread to end.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the thread to end, at most `timeout`, and returns whether it has ended. Returns `false` at once in the
    /// child of a fork.
    pub(crate) fn wait_for(&self, timeout: Duration) -> bool {
        let end = self.end.lock(|| None);
        // The channel of a thread that has ended is disconnected.
        end.as_ref().is_some_and(|end| unseen(|| end.recv_timeout(timeout)) != Err(RecvTimeoutError::Timeout))
    }
}

impl fmt::Debug for OwnThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnThread").finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use flamelet_test_support::holds_in_child;

    #[test]
    fn a_child_does_not_wait_for_the_thread_of_its_parent_even_while_another_does() {
        let thread = OwnThread::start("t", "waits", |cancel| drop(cancel.sleep(Duration::MAX)));
        let thread = thread.expect("a thread");
        let far = Duration::from_secs(3600);
        let held = thread.end.lock(|| None);
        assert!(holds_in_child(|| !thread.wait_for(far)));
        drop(held);
        thread.cancel();
        assert!(thread.wait_for(far));
    }
}
