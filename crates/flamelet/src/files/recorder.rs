//! The thread that turns windows into files.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flamelet_capture::profile::{Profile, pprof};
use flamelet_report::flame::{self, FlameOptions};

use super::calendar;
use super::folder::{FilesFolder, Window};
use crate::Result;
use crate::work::background::Cancel;
use crate::{CpuCapture, CpuRequest};

/// How many windows are held back while the folder cannot be written; older ones are dropped.
const MOST_WAITING: usize = 4;

pub(super) struct Recorder {
    request: CpuRequest,
    interval: Duration,
    name: String,
    folder: FilesFolder,
    on_problem: Box<dyn Fn(&str) + Send>,
    waiting: VecDeque<Window>,
    /// How many windows were dropped since the folder could no longer be written.
    given_up: usize,
    is_failing: bool,
    /// Whether a missing window was already reported.
    is_missing: bool,
}

impl Recorder {
    pub(super) fn new(
        request: CpuRequest,
        interval: Duration,
        name: String,
        folder: FilesFolder,
        on_problem: Box<dyn Fn(&str) + Send>,
    ) -> Self {
        Self {
            request,
            interval,
            name,
            folder,
            on_problem,
            waiting: VecDeque::new(),
            given_up: 0,
            is_failing: false,
            is_missing: false,
        }
    }

    /// Records until it is cancelled. The next capture starts before the last one is processed, so that there is no
    /// gap between two windows.
    pub(super) fn run(mut self, first: CpuCapture, cancel: &Cancel) {
        self.try_folder();
        let mut capture = Some(first);
        let mut end = Instant::now() + self.interval;
        loop {
            let is_over = cancel.sleep(end.saturating_duration_since(Instant::now())).is_err();
            let next = if is_over { None } else { self.next_capture() };
            if let Some(done) = capture.take() {
                self.keep_or_report(done);
            }
            if is_over {
                return self.report_lost();
            }
            capture = next;
            // If writing took longer than the interval, the lost time is not made up for.
            end = (end + self.interval).max(Instant::now());
        }
    }

    /// Starts the next capture. If it cannot start, it is retried after an interval.
    fn next_capture(&mut self) -> Option<CpuCapture> {
        let started: Result<CpuCapture> = self.request.clone().start();
        started.map_err(|error| self.report_missing(&error.to_string())).ok()
    }

    /// Keeps a finished window, or reports that it is missing. A failure, even a panic, does not affect the next
    /// window.
    fn keep_or_report(&mut self, done: CpuCapture) {
        let kept = catch_unwind(AssertUnwindSafe(|| self.keep(&done.finish())));
        match kept {
            Ok(Ok(())) => self.is_missing = false,
            Ok(Err(error)) => self.report_missing(&error.to_string()),
            Err(_) => self.report_missing("it could not be created (a bug in flamelet)"),
        }
    }

    /// Reports a missing window: once, until a window is complete again.
    fn report_missing(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_missing, true) {
            self.say(&format!("a window of {} is missing: {why}", self.name));
        }
    }

    /// Reports how many windows are lost if recording ends while the folder cannot be written.
    fn report_lost(&self) {
        let lost = self.waiting.len() + self.given_up;
        if lost > 0 {
            let path = self.folder.path().display();
            self.say(&format!("{path} could not be written completely: {lost} windows are lost"));
        }
    }

    /// Reports a problem. A panic in the callback does not end the recording.
    fn say(&self, problem: &str) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.on_problem)(problem)));
    }

    fn keep(&mut self, profile: &Profile) -> flamelet_capture::profile::Result<()> {
        self.waiting.push_back(self.window(profile)?);
        while self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
            self.given_up += 1;
        }
        self.write_waiting();
        Ok(())
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

    /// Reports a folder that cannot be written right away, not only after the first window.
    fn try_folder(&mut self) {
        if let Err(error) = self.folder.try_out() {
            self.report_failing(&error);
        }
    }

    /// Reports that the folder cannot be written: once, until it can be again.
    fn report_failing(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let path = self.folder.path().display();
            self.say(&format!("{path} cannot be written ({error}); trying again"));
        }
    }

    /// Writes the windows that wait. Reports once that the folder cannot be written, and once that it can be again.
    fn write_waiting(&mut self) {
        while let Some(window) = self.waiting.front() {
            match self.folder.write(window, SystemTime::now()) {
                Ok(()) => {
                    self.waiting.pop_front();
                    if std::mem::take(&mut self.is_failing) {
                        let lost = match std::mem::take(&mut self.given_up) {
                            0 => String::new(),
                            windows => format!("; {windows} windows are lost"),
                        };
                        let path = self.folder.path().display();
                        self.say(&format!("{path} can be written again{lost}"));
                    }
                }
                Err(error) => return self.report_failing(&error),
            }
        }
    }
}
