//! How heap profiling starts.

use super::files::NewFile;
use super::ledger::{Capacity, Field};
use super::thread::Inside;
use super::tracker::Tracker;
use super::{emergency, interval, live, modules, thread, tracker, watch};
use crate::{Error, ErrorKind, Result};
use flamelet_unwind::fork::{self, Handlers, Lock, Part};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Only one thread at a time makes tables and files.
static STARTING: Lock<()> = Lock::new(());

/// One sample in 512 KiB, the default of jemalloc and Go.
pub const DEFAULT_MEAN: u64 = 512 << 10;

const MOST_SITES: usize = 1 << 22;
const MOST_STACK_BYTES: usize = 1 << 30;

/// The longest file that any options make.
pub(super) fn longest_file() -> u64 {
    let most = Capacity { stack_words: MOST_STACK_BYTES / 8, sites: MOST_SITES };
    most.file_length()
}

/// Everything that can be chosen at the start of heap profiling; the defaults are safe in production.
#[derive(Clone, Debug)]
#[must_use = "nothing is sampled before `start`"]
pub struct Options {
    /// [`DEFAULT_MEAN`] unless it was chosen.
    mean: Option<u64>,
    live_blocks: usize,
    sites: usize,
    stack_bytes: usize,
    keeps_ends: bool,
    file: Option<PathBuf>,
    emergency_file: Option<PathBuf>,
    limit: Option<u64>,
    threshold: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mean: None,
            live_blocks: 64 << 10,
            sites: 16 << 10,
            stack_bytes: 8 << 20,
            keeps_ends: true,
            file: None,
            emergency_file: None,
            limit: None,
            threshold: 0.9,
        }
    }
}

impl Options {
    /// The defaults: one sample in 512 KiB, frees seen, no files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the mean distance between samples in bytes: 1 to see nearly everything, up to 2^40.
    pub fn mean(mut self, bytes: u64) -> Self {
        self.mean = Some(bytes);
        self
    }

    /// Sets how many sampled blocks can be alive at a time (65,536 by default: 32 GiB at the default mean). Further
    /// ones are counted as lost. Memory is used as the table fills: 80 bytes per block, and the page that a sampled
    /// block below 4 KiB takes for itself (a quarter of a GiB for 65,536 of them, which small means can reach).
    pub fn live_blocks(mut self, most: usize) -> Self {
        self.live_blocks = most;
        self
    }

    /// Sets how many different sites (stack, thread, labels, size class) are kept apart (16,384 by default). Further
    /// ones are counted without their labels, and in the end without their stack, so that sums stay right; profiles
    /// say how many.
    pub fn sites(mut self, most: usize) -> Self {
        self.sites = most;
        self
    }

    /// Sets how many bytes of stacks are kept (8 MiB by default, some 20,000 stacks of 50 frames).
    pub fn stack_bytes(mut self, most: usize) -> Self {
        self.stack_bytes = most;
        self
    }

    /// Sets whether the stacks of frees are kept, for [`Snapshot::freed`](super::Snapshot::freed). On by default;
    /// without them a sampled free costs a few hundred nanoseconds less.
    pub fn keep_free_stacks(mut self, keep: bool) -> Self {
        self.keeps_ends = keep;
        self
    }

    /// Keeps an up-to-date copy of the counts in this file, which [`recover`](super::recover) reads after the process
    /// is gone, however it ended. Put it on a disk: files in memory (tmpfs) are charged to the same control group. A
    /// sample then costs some microseconds more.
    ///
    /// Truncating the file, or filling its disk, does not harm the process: the file is made whole again as soon as
    /// that is possible.
    ///
    /// Every start makes a new file; the one that was there becomes [`previous_file`](super::previous_file), so that
    /// a service that is restarted at once does not wipe what its predecessor left.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Prepares this file, and writes the heap to it when a memory limit is near or an allocation is refused.
    /// As with [`Options::file`], the one that was there becomes the previous one.
    pub fn emergency_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.emergency_file = Some(path.into());
        self
    }

    /// Sets a limit for this process' memory in bytes, in addition to those of its control groups and `RLIMIT_AS`.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Sets the part of a limit beyond which there is an emergency: 0.9 by default.
    pub fn threshold(mut self, part: f64) -> Self {
        self.threshold = part;
        self
    }

    /// Starts sampling, or changes the mean and what is kept of frees if it was started before: tables and the
    /// recovery file are made only once, at the first start.
    pub fn start(&self) -> Result<()> {
        self.prepare()?;
        thread::set_mean(self.chosen_mean());
        Ok(())
    }

    /// Starts sampling with nothing counted yet, unless it is running already; returns whether it did. Fails if it is
    /// running with other settings than these.
    pub fn start_unless_running(&self) -> Result<bool> {
        let _starting = STARTING.lock();
        if super::is_running() {
            if self.is_watching() {
                let message = "the heap is already being sampled; its files and its limit can only be set when that \
                               starts";
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
            return self.check_running_mean().map(|()| false);
        }
        self.prepare_alone()?;
        thread::set_mean(self.chosen_mean());
        super::reset();
        Ok(true)
    }

    /// Does everything but the sampling itself.
    pub(super) fn prepare(&self) -> Result<&'static Tracker> {
        let _starting = STARTING.lock();
        self.prepare_alone()
    }

    fn prepare_alone(&self) -> Result<&'static Tracker> {
        let _inside = Inside::enter();
        self.check()?;
        let is_first = tracker::tracker().is_none();
        if !is_first && self.file.is_some() {
            let message = "the heap's recovery file can only be set at the first start";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let denied_path = |path: &Path| {
            let text = path.display().to_string();
            move |error: std::io::Error| denied(&text, &error)
        };
        let new = match self.file.as_deref() {
            Some(path) => Some(NewFile::create(path).map_err(denied_path(path))?),
            None => None,
        };
        // Before the tables can be used: a child that does not know of the fork would write to its parent's file.
        fork::watch(Part::Heap, &AT_FORK);
        let capacity = Capacity { stack_words: self.stack_bytes / 8, sites: self.sites };
        let tracker = tracker::install(capacity, self.live_blocks, new.as_ref().map(|new| &new.file))
            .map_err(|error| denied("the heap profiler's tables", &error))?;
        if let (Some(new), Some(path)) = (new, self.file.as_deref()) {
            new.put_in_place(|_| true).map_err(denied_path(path))?;
        }
        tracker.keeps_ends.store(self.keeps_ends, Ordering::Relaxed);
        tracker.ledger.set(Field::Mean, self.chosen_mean());
        modules::refresh(&tracker.ledger)?;
        if let Some(path) = &self.emergency_file {
            emergency::prepare(path, &tracker.ledger).map_err(denied_path(path))?;
        }
        if self.is_watching() {
            watch::start(watch::Settings { threshold: self.threshold, named: self.limit });
        }
        Ok(tracker)
    }

    /// Returns whether there is a file or a limit.
    pub(super) fn is_watching(&self) -> bool {
        self.emergency_file.is_some() || self.file.is_some() || self.limit.is_some()
    }

    pub(super) fn chosen_mean(&self) -> u64 {
        self.mean.unwrap_or(DEFAULT_MEAN)
    }

    /// A process has one heap: a mean that was chosen must be the one that it is sampled with.
    fn check_running_mean(&self) -> Result<()> {
        let running = tracker::tracker().map_or(0, |tracker| tracker.ledger.get(Field::Mean));
        // jemalloc's own sampling takes the nearest power of two.
        let is_same = |mean: u64| mean == running || 1 << interval::nearest_power(mean) == running;
        match self.mean {
            Some(mean) if !is_same(mean) => {
                let message = format!(
                    "the heap is already being sampled, one byte in {running}; change that with \
                     `flamelet::heap::set_mean({mean})`, not with a second builder"
                );
                Err(Error::new(ErrorKind::InvalidOption, message))
            }
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<()> {
        check_mean(self.chosen_mean())?;
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if !(0.01..=1.0).contains(&self.threshold) {
            return invalid(format!("invalid threshold {}; use 0.01 to 1", self.threshold));
        }
        let ranges = [
            ("live blocks", self.live_blocks, 64, live::MAX_CAPACITY),
            ("sites", self.sites, 64, MOST_SITES),
            ("bytes of stacks", self.stack_bytes, 64 << 10, MOST_STACK_BYTES),
        ];
        for (what, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return invalid(format!("invalid number of {what}, {value}; use {least} to {most}"));
            }
        }
        Ok(())
    }
}

static AT_FORK: Handlers = Handlers {
    before: modules::hold_for_fork,
    in_parent: modules::release_after_fork,
    in_child: || {
        tracker::leave_file_to_parent();
        emergency::forget_file();
        watch::forget_watch_thread();
        STARTING.reset_in_child();
        modules::release_in_child();
    },
};

pub(super) fn check_mean(mean: u64) -> Result<()> {
    if !(1..=1 << 40).contains(&mean) {
        let message = format!("invalid mean of {mean} bytes between samples; use 1 to 2^40");
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    Ok(())
}

fn denied(what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Denied, format!("{what}: {error}"))
}
