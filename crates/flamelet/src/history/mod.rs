//! The service's memory on disk: windows of CPU samples, locks, awaits and memory, which survive the process.
//!
//! ```text
//!  sampler ─► window of 10 s ─► flamelet-store ─► Profiler::range, ?from=&to=, flamelet top FOLDER --from -1h
//! ```
//!
//! One thread does all the work. A disk that is full, read-only or gone costs windows and nothing else: it is reported
//! once, and tried again with each window.

#[cfg(target_os = "linux")]
mod others;
mod recorder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flamelet_store::Options;

use crate::work::own_thread::OwnThread;
use crate::{Error, Result};
pub(crate) use flamelet_store::HEAP;
use recorder::Recorder;
pub(crate) use recorder::RecorderNeeds;

/// The name of CPU windows in a history.
pub(crate) const CPU: &str = "cpu";
/// The name of windows that show what was allocated, and what changed in the heap.
pub(crate) const ALLOCS: &str = "allocs";
/// The shortest and the longest window.
const WINDOWS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// How a service keeps its past on disk, see [`ProfilerBuilder::history`](crate::ProfilerBuilder::history).
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
    frequency: u32,
    window: Duration,
    options: Options,
}

impl History {
    /// Keeps the past in this folder, which is created if it does not exist. It belongs to one service.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (frequency, window) = (19, Duration::from_secs(10));
        Self { path: path.into(), frequency, window, options: Options::default() }
    }

    /// Sets the samples per second of CPU time; 19 by default.
    #[must_use]
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.frequency = hertz;
        self
    }

    /// Sets the length of one window; 10 seconds by default. Profiles of the past consist of whole windows.
    #[must_use]
    pub fn window(mut self, length: Duration) -> Self {
        self.window = length;
        self
    }

    /// Sets how many bytes are kept on disk at most; 128 MiB by default. The oldest windows go first.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.options.bytes = bytes;
        self
    }

    /// Sets how long windows are kept; seven days by default.
    #[must_use]
    pub fn keep_for(mut self, age: Duration) -> Self {
        self.options.age = age;
        self
    }

    fn check(&self) -> Result<()> {
        if !WINDOWS.contains(&self.window) {
            let message = format!("windows must be 100 ms to an hour long, not {:?}", self.window);
            return Err(Error::invalid(message));
        }
        Ok(())
    }
}

impl From<&str> for History {
    fn from(path: &str) -> Self {
        Self::new(path)
    }
}

impl From<String> for History {
    fn from(path: String) -> Self {
        Self::new(path)
    }
}

impl From<&Path> for History {
    fn from(path: &Path) -> Self {
        Self::new(path)
    }
}

impl From<PathBuf> for History {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

/// The thread that writes the history.
#[derive(Debug)]
pub(crate) struct HistoryThread {
    path: PathBuf,
    /// How long the end of the profiler waits for the last window to be written.
    shutdown_timeout: Duration,
    thread: OwnThread,
}

impl HistoryThread {
    /// Starts to sample and to write.
    pub(crate) fn start(
        history: History,
        needs: RecorderNeeds,
        cpu: &flamelet_capture::cpu::Options,
        shutdown_timeout: Duration,
    ) -> Result<Self> {
        history.check()?;
        let mut sampling = cpu.clone();
        sampling.frequency = history.frequency;
        sampling.timeline = false;
        sampling.memory_budget = cpu.memory_budget.min(8 << 20);
        let first = flamelet_capture::cpu::start(&sampling)?;
        let path = history.path.clone();
        let recorder = Recorder::new(history, sampling, needs);
        let run = move |cancel: &_| recorder.run(first, cancel);
        let thread = OwnThread::start("flamelet-past", "writes the history", run)?;
        Ok(Self { path, shutdown_timeout, thread })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HistoryThread {
    fn drop(&mut self) {
        self.thread.cancel();
        self.thread.wait_for(self.shutdown_timeout);
    }
}
