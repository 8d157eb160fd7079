//! The thread that turns windows into files.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flamelet_capture::profile::{Profile, pprof};
use flamelet_report::flame::{self, FlameOptions};

use super::calendar;
use super::folder::{Folder, Window};
use crate::error::Result;
use crate::task::Cancel;
use crate::{CpuCapture, CpuRequest};

/// Windows that wait while the folder cannot be written; older ones are given up.
const MOST_WAITING: usize = 4;

pub(super) struct Recorder {
    request: CpuRequest,
    interval: Duration,
    name: String,
    folder: Folder,
    on_problem: Box<dyn Fn(&str) + Send>,
    waiting: VecDeque<Window>,
    is_failing: bool,
}

impl Recorder {
    pub(super) fn new(
        request: CpuRequest,
        interval: Duration,
        name: String,
        folder: Folder,
        on_problem: Box<dyn Fn(&str) + Send>,
    ) -> Self {
        Self { request, interval, name, folder, on_problem, waiting: VecDeque::new(), is_failing: false }
    }

    /// Records until it is cancelled. The next capture starts before the last one is looked at, so that no
    /// moment is missing between two windows.
    pub(super) fn run(mut self, first: CpuCapture, cancel: &Cancel) {
        let mut capture = Some(first);
        let mut end = Instant::now() + self.interval;
        loop {
            let is_over = cancel.sleep(end.saturating_duration_since(Instant::now())).is_err();
            let next = if is_over { None } else { self.next_capture() };
            if let Some(done) = capture.take() {
                self.keep(&done.finish());
            }
            if is_over {
                return;
            }
            capture = next;
            // A window that took longer than the interval to write is not made up for.
            end = (end + self.interval).max(Instant::now());
        }
    }

    /// A capture that cannot start is tried again after an interval.
    fn next_capture(&mut self) -> Option<CpuCapture> {
        let started: Result<CpuCapture> = self.request.clone().start();
        let report = |error| (self.on_problem)(&format!("a window of {} is missing: {error}", self.name));
        started.map_err(report).ok()
    }

    fn keep(&mut self, profile: &Profile) {
        match self.window(profile) {
            Ok(window) => self.waiting.push_back(window),
            Err(error) => (self.on_problem)(&format!("a window of {} is missing: {error}", self.name)),
        }
        while self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
        }
        self.write_waiting();
    }

    fn window(&self, profile: &Profile) -> flamelet_capture::profile::Result<Window> {
        let nanos = u64::try_from(profile.header.time_nanos).unwrap_or(0);
        let start: SystemTime = UNIX_EPOCH + Duration::from_nanos(nanos);
        let mut packed = Vec::new();
        pprof::write_gzip(profile, &mut packed)?;
        let title = format!("{} · CPU · {}", self.name, calendar::stamp(start));
        let picture = flame::svg(profile, &FlameOptions { title, ..FlameOptions::default() });
        Ok(Window { start, pprof: packed, picture: picture.into_bytes() })
    }

    /// Says once that the folder cannot be written, and once that it can again.
    fn write_waiting(&mut self) {
        while let Some(window) = self.waiting.front() {
            match self.folder.write(window) {
                Ok(()) => {
                    self.waiting.pop_front();
                    if std::mem::take(&mut self.is_failing) {
                        (self.on_problem)(&format!("{} is written again", self.folder.path().display()));
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        let path = self.folder.path().display();
                        let message = format!("{path} cannot be written ({error}); trying again");
                        (self.on_problem)(&message);
                    }
                    return;
                }
            }
        }
    }
}
