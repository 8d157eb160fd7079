//! A thread of flamelet's that works until the profiler ends, and is given a moment to finish then.

use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use flamelet_capture::own_threads::unseen;

use crate::lock::lock;
use crate::task::Cancel;
use crate::{Error, ErrorKind, Result};

pub(crate) struct OwnThread {
    /// The process that the thread belongs to: the child of a fork has no such thread.
    process: u32,
    cancel: Arc<Cancel>,
    /// Disconnected when the thread has ended.
    end: Mutex<Receiver<()>>,
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
        Ok(Self { process: std::process::id(), cancel, end: Mutex::new(end) })
    }

    /// Tells the thread to end.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the end of the thread, at most until then, and returns whether it has ended. Returns `false` at once in
    /// the child of a fork.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        self.process == std::process::id()
            // The channel of a thread that has ended is disconnected.
            && unseen(|| lock(&self.end).recv_timeout(left)) != Err(RecvTimeoutError::Timeout)
    }
}

impl fmt::Debug for OwnThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnThread").field("process", &self.process).finish_non_exhaustive()
    }
}
