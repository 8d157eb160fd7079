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
#[cfg(feature = "push-tls")]
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::Result;
use crate::work::background::Cancel;
use crate::work::own_thread::OwnThread;
use client::Client;
pub(crate) use environment::from_environment;
use flamelet_capture::profile::moment::now;
pub(crate) use pusher::PusherNeeds;
use pusher::{Next, Pusher};
pub use settings::Push;

/// How often to look for new windows.
const POLL: Duration = Duration::from_secs(1);

/// What a pusher has done so far.
#[derive(Debug, Default)]
pub(crate) struct PushCounters {
    pub(crate) sent: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// How old the oldest window is that was not sent yet, in nanoseconds.
    pub(crate) lag: AtomicU64,
}

/// The thread that sends to one receiver.
#[derive(Debug)]
pub(crate) struct PushThread {
    counters: Arc<PushCounters>,
    thread: OwnThread,
}

impl PushThread {
    /// Starts to send what is written to the history in `folder` from now on, or since the last time.
    pub(crate) fn start(
        push: Push,
        folder: &Path,
        needs: PusherNeeds,
        shutdown_timeout: Duration,
    ) -> Result<Self> {
        push.check()?;
        let (counters, client) = (Arc::<PushCounters>::default(), Client::new(&push)?);
        let mut pusher = Pusher::new(push, folder, needs, client, counters.clone());
        // Before the first window is written, so that it is sent. If it fails, the thread tries again.
        let _ = pusher.open(now());
        let run = move |cancel: &_| run(pusher, cancel, shutdown_timeout);
        let thread = OwnThread::start("flamelet-push", "pushes profiles", run)?;
        Ok(Self { counters, thread })
    }
}

/// The threads of all receivers, which end together.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    threads: Vec<PushThread>,
    /// How long the end of the profiler waits for the last window to be sent.
    shutdown_timeout: Duration,
}

impl Receivers {
    pub(crate) fn new(shutdown_timeout: Duration) -> Self {
        Self { threads: Vec::new(), shutdown_timeout }
    }

    pub(crate) fn add(&mut self, receiver: PushThread) {
        self.threads.push(receiver);
    }

    /// Returns what each receiver has got so far.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &PushCounters> {
        self.threads.iter().map(|receiver| &*receiver.counters)
    }

    /// Tells all threads to end, waits for all of them together, and returns how many have ended in that time.
    fn end(&self) -> usize {
        self.threads.iter().for_each(|receiver| receiver.thread.cancel());
        let start = Instant::now();
        let left = || self.shutdown_timeout.saturating_sub(start.elapsed());
        self.threads.iter().filter(|receiver| receiver.thread.wait_for(left())).count()
    }
}

/// Sends until it is cancelled, and then what is left, if the receiver takes it at once.
fn run(mut pusher: Pusher<Client>, cancel: &Cancel, shutdown_timeout: Duration) {
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
    let start = Instant::now();
    while start.elapsed() < shutdown_timeout && matches!(pusher.step(now()), Next::Now) {}
}

impl Drop for Receivers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    #[test]
    fn all_receivers_are_told_to_end_before_one_is_waited_for() {
        // Each thread ends after the other one was told to end.
        let receiver = |told: Sender<()>, other: Receiver<()>| {
            let work = move |cancel: &Cancel| {
                while cancel.sleep(Duration::from_secs(3600)).is_ok() {}
                let _ = told.send(());
                let _ = other.recv();
            };
            let thread = OwnThread::start("receiver", "waits for the other", work).expect("a thread");
            PushThread { counters: Arc::default(), thread }
        };
        let ((to_first, of_first), (to_second, of_second)) = (mpsc::channel(), mpsc::channel());
        let mut receivers = Receivers::new(Duration::from_secs(60));
        receivers.add(receiver(to_second, of_first));
        receivers.add(receiver(to_first, of_second));
        assert_eq!(receivers.end(), 2);
    }
}
