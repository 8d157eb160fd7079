//! Sends the history's windows to the stores that people run: Pyroscope, Parca, OTLP.
//!
//! ```text
//!  history on disk ─► pusher (a thread per receiver) ─► HTTP/1.1 ─► receiver
//!        ▲                 │
//!        └── cursor ◄──────┘   how far this receiver has got
//! ```
//!
//! The history is also the spool: while a receiver is away, its windows wait on the disk, and nothing waits in memory. A
//! window is sent once the history has it, in the order of writing, and the cursor moves when the receiver has
//! acknowledged it. So a window is sent again only if the acknowledgement got lost, and then with the same id.

mod client;
mod environment;
mod names;
#[cfg(test)]
mod outage;
mod pusher;
mod settings;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::lock::lock;
use crate::task::Cancel;
use crate::{Error, ErrorKind, Result};
use client::Client;
pub(crate) use environment::from_environment;
pub(crate) use pusher::Service;
use pusher::{Next, Pusher};
pub use settings::Push;

/// How often to look for new windows.
const POLL: Duration = Duration::from_secs(1);
/// How long the end of the profiler waits for the last window to be sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a pusher has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// How old the oldest window is that was not sent yet, in nanoseconds.
    pub(crate) lag: AtomicU64,
}

/// The thread that sends to one receiver.
pub(crate) struct Running {
    address: String,
    counters: Arc<Counters>,
    /// The process that the thread belongs to: the child of a fork has no such thread.
    process: u32,
    cancel: Arc<Cancel>,
    /// Disconnected when the thread has ended.
    end: Mutex<Receiver<()>>,
}

impl Running {
    /// Starts to send what is written to the history in `folder` from now on, or since the last time.
    pub(crate) fn start(push: Push, folder: &Path, service: Service) -> Result<Self> {
        push.check()?;
        let (counters, cancel) = (Arc::<Counters>::default(), Arc::<Cancel>::default());
        let (address, client) = (push.shown_address(), Client::new(&push)?);
        let mut pusher = Pusher::new(push, folder, service, client, counters.clone());
        // Before the first window is written, so that it is sent. If it fails, the thread tries again.
        let _ = pusher.open(now());
        let (alive, end) = mpsc::channel::<()>();
        let theirs = cancel.clone();
        let run = move || {
            let _alive = alive;
            run(pusher, &theirs);
        };
        flamelet_capture::own_threads::spawn("flamelet-push", run).map_err(|error| {
            Error::new(ErrorKind::Denied, format!("the thread that pushes profiles cannot start: {error}"))
        })?;
        Ok(Self { address, counters, process: std::process::id(), cancel, end: Mutex::new(end) })
    }

    /// Waits for the end of the thread, until then, and returns whether it has ended.
    fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        // The channel of a thread that has ended is disconnected.
        lock(&self.end).recv_timeout(left) != Err(RecvTimeoutError::Timeout)
    }
}

/// The threads of all receivers, which end together.
#[derive(Debug, Default)]
pub(crate) struct Receivers(pub(crate) Vec<Running>);

impl Receivers {
    /// Returns what each receiver has got so far.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.0.iter().map(|running| &*running.counters)
    }

    /// Tells all threads to end, waits for all of them together, and returns how many have ended in that time.
    fn end(&self, patience: Duration) -> usize {
        self.0.iter().for_each(|running| running.cancel.cancel());
        let until = Instant::now() + patience;
        let own = self.0.iter().filter(|running| running.process == std::process::id());
        own.filter(|running| running.wait(until)).count()
    }
}

/// Sends until it is cancelled, and then what is left, if the receiver takes it at once.
fn run(mut pusher: Pusher<Client>, cancel: &Cancel) {
    loop {
        let wait = match pusher.step(now()) {
            Next::Now => Duration::ZERO,
            Next::WhenThereIsMore => POLL,
            Next::After(wait) => wait,
        };
        if cancel.sleep(wait).is_err() {
            break;
        }
    }
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && matches!(pusher.step(now()), Next::Now) {}
}

/// Returns the time in nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Drop for Receivers {
    fn drop(&mut self) {
        self.end(PATIENCE);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_receivers_are_told_to_end_before_one_is_waited_for() {
        let [first, second]: [Arc<Cancel>; 2] = Default::default();
        // The first thread ends when the second is told to.
        let running = |own: &Arc<Cancel>, awaited: &Arc<Cancel>| {
            let ((alive, end), awaited) = (mpsc::channel::<()>(), awaited.clone());
            std::thread::spawn(move || {
                let _alive = alive;
                while awaited.sleep(Duration::from_secs(3600)).is_ok() {}
            });
            let (address, process) = (String::new(), std::process::id());
            Running { address, counters: Arc::default(), process, cancel: own.clone(), end: Mutex::new(end) }
        };
        let receivers = Receivers(vec![running(&first, &second), running(&second, &first)]);
        assert_eq!(receivers.end(Duration::from_secs(60)), 2);
    }
}
