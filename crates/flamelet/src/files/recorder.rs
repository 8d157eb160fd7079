//! The thread that turns windows into files.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flamelet_capture::profile::{Profile, pprof};
use flamelet_report::flame::{self, FlameOptions};

use super::calendar;
use super::folder::{Folder, Window};
use crate::Result;
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
    /// Windows given up since the folder cannot be written.
    given_up: usize,
    is_failing: bool,
    /// Whether it was said that windows are missing.
    is_missing: bool,
}

impl Recorder {
    pub(super) fn new(
        request: CpuRequest,
        interval: Duration,
        name: String,
        folder: Folder,
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

    /// Records until it is cancelled. The next capture starts before the last one is looked at, so that no
    /// moment is missing between two windows.
    pub(super) fn run(mut self, first: CpuCapture, cancel: &Cancel) {
        self.try_folder();
        let mut capture = Some(first);
        let mut end = Instant::now() + self.interval;
        loop {
            let is_over = cancel.sleep(end.saturating_duration_since(Instant::now())).is_err();
            let next = if is_over { None } else { self.next_capture() };
            if let Some(done) = capture.take() {
                self.keep_or_say(done);
            }
            if is_over {
                return self.say_lost();
            }
            capture = next;
            // A window that took longer than the interval to write is not made up for.
            end = (end + self.interval).max(Instant::now());
        }
    }

    /// A capture that cannot start is tried again after an interval.
    fn next_capture(&mut self) -> Option<CpuCapture> {
        let started: Result<CpuCapture> = self.request.clone().start();
        started.map_err(|error| self.say_missing(&error.to_string())).ok()
    }

    /// Whatever goes wrong with one window, the next one gets its chance.
    fn keep_or_say(&mut self, done: CpuCapture) {
        let kept = catch_unwind(AssertUnwindSafe(|| self.keep(&done.finish())));
        match kept {
            Ok(Ok(())) => self.is_missing = false,
            Ok(Err(error)) => self.say_missing(&error.to_string()),
            Err(_) => self.say_missing("it could not be made (a defect of flamelet)"),
        }
    }

    /// Once, until a window is whole again.
    fn say_missing(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_missing, true) {
            self.say(&format!("a window of {} is missing: {why}", self.name));
        }
    }

    /// The last word, where it ends while the folder cannot be written.
    fn say_lost(&self) {
        let lost = self.waiting.len() + self.given_up;
        if lost > 0 {
            let path = self.folder.path().display();
            self.say(&format!("{path} could not be written to the end: {lost} windows are lost"));
        }
    }

    /// Whatever the one who hears it does, recording goes on.
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

    /// A folder that cannot be written is better known now than after the first window.
    fn try_folder(&mut self) {
        if let Err(error) = self.folder.try_out() {
            self.say_failing(&error);
        }
    }

    /// Once, until it is written again.
    fn say_failing(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let path = self.folder.path().display();
            self.say(&format!("{path} cannot be written ({error}); trying again"));
        }
    }

    /// Says once that the folder cannot be written, and once that it can again.
    fn write_waiting(&mut self) {
        while let Some(window) = self.waiting.front() {
            match self.folder.write(window, SystemTime::now()) {
                Ok(()) => {
                    self.waiting.pop_front();
                    if std::mem::take(&mut self.is_failing) {
                        let lost = match std::mem::take(&mut self.given_up) {
                            0 => String::new(),
                            windows => format!("; {windows} windows were given up"),
                        };
                        let path = self.folder.path().display();
                        self.say(&format!("{path} is written again{lost}"));
                    }
                }
                Err(error) => return self.say_failing(&error),
            }
        }
    }
}
