//! A profile of each interval, written to a folder.
//!
//! ```text
//!  start ──► window ──► window ──► … ──► stop: the unfinished last window
//!               │
//!               ├─ profile-SERVICE-TIME.pb.gz        for `flamelet view`, `go tool pprof`
//!               └─ flamegraph-SERVICE-TIME.svg       for a browser
//! ```
//!
//! Each file covers its own window, which begins where the previous one ended. A dedicated thread does all the work.
//! If the folder cannot be written, this is reported once, at the start if possible, and retried with the next
//! window.

mod calendar;
mod folder;
mod recorder;
mod retention;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::work::background::Cancel;
use crate::work::lock::ProcessMutex;
use crate::work::problem::to_standard_error;
use crate::{CpuRequest, Profiler};
use crate::{Error, ErrorKind, Result};

use folder::FilesFolder;
use recorder::Recorder;
use retention::Retention;

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(86_400);

/// Writes a CPU profile of every `interval` seconds to the folder `path`, as pprof and as a flame graph, sampled
/// `frequency` times a second, until the process ends. `name` is the name of the service.
///
/// ```no_run
/// if let Err(error) = flamelet::setup_profiling(
///     "/opt/profiling/indexer-service".to_string(),
///     150, // sampling frequency (Hz)
///     120, // interval between reports (seconds)
///     Some("Indexer Service".to_string()),
/// ) {
///     eprintln!("profiling is off: {error}");
/// }
/// ```
///
/// Recording continues when the returned value is dropped. Keep the value to [`stop`](DetachedFiles::stop) recording,
/// which also writes the unfinished last window. To choose how much is kept, see [`IntervalFiles::builder`].
pub fn setup_profiling(
    path: String,
    frequency: i32,
    interval: u64,
    name: Option<String>,
) -> Result<DetachedFiles> {
    let frequency = u32::try_from(frequency)
        .map_err(|_| Error::invalid(format!("the frequency must be above 0 Hz, not {frequency}")))?;
    let mut builder =
        IntervalFiles::builder(path).frequency(frequency).interval(Duration::from_secs(interval));
    if let Some(name) = name {
        builder = builder.name(name);
    }
    Ok(builder.start()?.detach())
}

/// A recorder of interval files, see [`IntervalFiles::builder`]. Dropping it stops it and writes its last window,
/// unless it was [detached](IntervalFiles::detach). The recorder does not survive a `fork`: a service that forks into
/// the background starts it in the child.
#[derive(Debug)]
#[must_use = "recording stops when this is dropped, unless it is detached"]
pub struct IntervalFiles {
    /// `None` once it is stopped or detached.
    running: Option<RecorderThread>,
}

/// A recorder of interval files that runs until the process ends or it is [stopped](DetachedFiles::stop), even when
/// this value is dropped, see [`setup_profiling`] and [`IntervalFiles::detach`].
#[derive(Debug)]
pub struct DetachedFiles {
    running: Option<RecorderThread>,
}

impl DetachedFiles {
    /// Stops recording, and writes the unfinished last window before it returns.
    pub fn stop(self) {
        self.running.into_iter().for_each(RecorderThread::stop);
    }
}

/// The recorder's thread.
struct RecorderThread {
    cancel: Arc<Cancel>,
    /// `None` in the child of a fork, which has no such thread, and nothing to write.
    thread: ProcessMutex<Option<JoinHandle<()>>>,
}

impl RecorderThread {
    fn new(cancel: Arc<Cancel>, thread: JoinHandle<()>) -> Self {
        let own = Self { cancel, thread: ProcessMutex::new() };
        drop(own.thread.lock(|| Some(thread)));
        own
    }

    fn stop(self) {
        if let Some(thread) = self.thread.lock(|| None).take() {
            self.cancel.cancel();
            // A panic of the recorder must not spread to the service.
            let _ = flamelet_capture::own_threads::unseen(|| thread.join());
        }
    }
}

impl fmt::Debug for RecorderThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderThread").finish_non_exhaustive()
    }
}

impl IntervalFiles {
    /// Returns a builder for a recorder that writes to `folder`. The folder is created if it does not exist.
    pub fn builder(folder: impl Into<PathBuf>) -> IntervalFilesBuilder {
        IntervalFilesBuilder {
            folder: folder.into(),
            interval: Duration::from_secs(120),
            frequency: None,
            name: None,
            profiler: None,
            retention: Retention::default(),
            on_problem: Box::new(to_standard_error),
        }
    }

    /// Stops recording, and writes the unfinished last window before it returns.
    pub fn stop(self) {
        drop(self);
    }

    /// Lets the recorder run until the process ends, even when the returned value is dropped.
    pub fn detach(mut self) -> DetachedFiles {
        DetachedFiles { running: self.running.take() }
    }
}

impl Drop for IntervalFiles {
    fn drop(&mut self) {
        self.running.take().into_iter().for_each(RecorderThread::stop);
    }
}

/// Builds an [`IntervalFiles`].
#[must_use = "nothing is recorded until `start`"]
pub struct IntervalFilesBuilder {
    folder: PathBuf,
    interval: Duration,
    frequency: Option<u32>,
    name: Option<String>,
    profiler: Option<Profiler>,
    retention: Retention,
    on_problem: Box<dyn Fn(&str) + Send>,
}

impl IntervalFilesBuilder {
    /// Sets the length of one window; two minutes by default.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the samples per second of CPU time; by default the profiler's.
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.frequency = Some(hertz);
        self
    }

    /// Sets the service's name, which is part of every file name; by default the profiler's.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the profiler whose symbols and settings to share; by default a new one with default settings.
    pub fn profiler(mut self, profiler: Profiler) -> Self {
        self.profiler = Some(profiler);
        self
    }

    /// Sets the maximum number of windows to keep; 1000 by default.
    pub fn keep_windows(mut self, windows: usize) -> Self {
        self.retention.windows = windows.max(1);
        self
    }

    /// Sets how long to keep a window; seven days by default. The time between two windows counts as at most an
    /// eighth of that (or as two intervals, if that is more), so that a clock that jumps forward, or a month without
    /// the service, does not make all windows old at once. They are removed one by one as the service keeps running.
    pub fn keep_for(mut self, age: Duration) -> Self {
        self.retention.age = age;
        self
    }

    /// Sets the maximum number of bytes to keep; 256 MiB by default. The newest window is kept whatever its size.
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.retention.bytes = bytes;
        self
    }

    /// Sets a function that is called once when the folder cannot be written, and once when it can be written again;
    /// by default, it prints to standard error. It is called on the recorder's thread, and a panic in it stays there.
    pub fn on_problem(mut self, report: impl Fn(&str) + Send + 'static) -> Self {
        self.on_problem = Box::new(report);
        self
    }

    /// Starts to record. A folder that cannot be written is not an error: it is reported at once, and retried with
    /// each window.
    pub fn start(self) -> Result<IntervalFiles> {
        if !(SHORTEST..=LONGEST).contains(&self.interval) {
            return Err(Error::invalid(format!(
                "the interval must be {} ms or longer, and at most a day, not {:?}",
                SHORTEST.as_millis(),
                self.interval
            )));
        }
        let profiler = match self.profiler {
            Some(profiler) => profiler,
            None => Profiler::builder().start()?,
        };
        let request: CpuRequest = match self.frequency {
            Some(frequency) => profiler.cpu(self.interval).frequency(frequency),
            None => profiler.cpu(self.interval),
        };
        let name = self.name.unwrap_or_else(|| profiler.name().to_owned());
        let retention = Retention { interval: self.interval, ..self.retention };
        let folder = FilesFolder::new(self.folder, &name, retention);
        let first = request.clone().start()?;
        let recorder = Recorder::new(request, self.interval, name, folder, self.on_problem);
        let cancel = Arc::new(Cancel::default());
        let theirs = cancel.clone();
        let run = move || recorder.run(first, &theirs);
        let thread = flamelet_capture::own_threads::spawn("flamelet-files", run).map_err(|error| {
            Error::new(ErrorKind::Denied, format!("the recorder's thread cannot start: {error}"))
        })?;
        Ok(IntervalFiles { running: Some(RecorderThread::new(cancel, thread)) })
    }
}

impl fmt::Debug for IntervalFilesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalFilesBuilder")
            .field("folder", &self.folder)
            .field("interval", &self.interval)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}
