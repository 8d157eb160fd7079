//! The thread that writes windows, and the names of the code in them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flamelet_capture::cpu::{self, Options, Session};
use flamelet_capture::profile::Profile;
use flamelet_store::Writer;

#[cfg(target_os = "linux")]
use super::others::Others;
use super::{CPU, History};
use crate::Result;
use crate::symbols::Symbols;
use crate::work::background::Cancel;
use crate::work::problem::to_standard_error;

/// Names are first looked up after this many windows, then after twice as long each time, up to [`NAMES_LAST`].
const NAMES_FIRST: u32 = 6;
const NAMES_LAST: Duration = Duration::from_secs(3600);
/// Bytes of names that are cached while they are looked up.
const NAMES_MEMORY: u64 = 2 << 20;

/// What the recorder needs of the service's profiler.
pub(crate) struct RecorderNeeds {
    /// The labels of all samples.
    pub(crate) labels: Vec<(String, String)>,
    /// `None` if the service does not look names up.
    pub(crate) symbols: Option<Arc<Symbols>>,
}

pub(super) struct Recorder {
    history: History,
    sampling: Options,
    needs: RecorderNeeds,
    #[cfg(target_os = "linux")]
    others: Others,
    /// `None` while the folder cannot be opened.
    writer: Option<Writer>,
    /// Whether a problem was reported that is not over.
    is_failing: bool,
    /// The same for names.
    names_are_failing: bool,
    names_due: Instant,
    names_after: Duration,
}

impl Recorder {
    pub(super) fn new(history: History, sampling: Options, needs: RecorderNeeds) -> Self {
        let names_after = (history.window * NAMES_FIRST).min(NAMES_LAST);
        Self {
            #[cfg(target_os = "linux")]
            others: Others::start(history.window),
            history,
            sampling,
            needs,
            writer: None,
            is_failing: false,
            names_are_failing: false,
            names_due: Instant::now() + names_after,
            names_after,
        }
    }

    /// Records until it is cancelled. The next window begins before the last one is written, so that there is no gap.
    pub(super) fn run(mut self, first: Session, cancel: &Cancel) {
        // A folder that cannot be written is reported at once.
        let opened = self.writer().map(drop);
        self.report(opened);
        let mut capture = Some(first);
        let mut end = Instant::now() + self.history.window;
        loop {
            let is_over = cancel.sleep(end.saturating_duration_since(Instant::now())).is_err();
            let next = if is_over { None } else { cpu::start(&self.sampling).ok() };
            if let Some(done) = capture.take() {
                self.write(|| vec![(CPU, done.finish())]);
            }
            #[cfg(target_os = "linux")]
            self.write_others(is_over);
            if is_over || self.names_due <= Instant::now() {
                self.keep_names();
            }
            if is_over {
                return;
            }
            capture = next;
            end = (end + self.history.window).max(Instant::now());
        }
    }

    /// Writes finished windows. A failure, even a panic, does not affect the next ones.
    fn write(&mut self, windows: impl FnOnce() -> Vec<(&'static str, Profile)>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for (kind, profile) in windows() {
                let profile = self.labelled(profile);
                self.writer()?.append(kind, &profile)?;
            }
            Ok(())
        }));
        self.report(outcome.unwrap_or_else(|_| {
            let message = "a window of the history could not be created (a bug in flamelet)";
            Err(crate::Error::new(crate::ErrorKind::Internal, message))
        }));
    }

    /// Writes what was counted other than CPU time.
    #[cfg(target_os = "linux")]
    fn write_others(&mut self, is_last: bool) {
        let symbols = self.needs.symbols.clone();
        let others = catch_unwind(AssertUnwindSafe(|| self.others.windows(symbols.as_deref(), is_last)));
        let others = others.unwrap_or_default();
        // Most services count nothing else; then there is nothing to report either.
        if !others.is_empty() {
            self.write(|| others);
        }
    }

    /// Adds the labels that the service gives all its samples.
    fn labelled(&self, mut profile: Profile) -> Profile {
        for (key, text) in &self.needs.labels {
            profile.label_all(key, text);
        }
        profile
    }

    /// Returns the writer, which is opened again if that failed before.
    fn writer(&mut self) -> Result<&mut Writer> {
        let opened = match self.writer.take() {
            Some(writer) => writer,
            None => Writer::open(&self.history.path, self.history.options.clone())?,
        };
        Ok(self.writer.insert(opened))
    }

    /// Reports a problem once, until it is over.
    fn report(&mut self, outcome: Result<()>) {
        match outcome {
            Err(error) if !std::mem::replace(&mut self.is_failing, true) => {
                to_standard_error(&format!("the history cannot be written ({error}); trying again"));
            }
            Ok(()) if std::mem::take(&mut self.is_failing) => {
                let path = self.history.path.display();
                to_standard_error(&format!("the history in {path} is written again"));
            }
            _ => {}
        }
    }

    /// Looks up the names of code that is new in the history, while the program's files exist.
    fn keep_names(&mut self) {
        let after = self.names_after;
        self.names_after = (after * 2).min(NAMES_LAST);
        self.names_due = Instant::now() + self.names_after;
        if self.needs.symbols.is_none() {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        let kept = catch_unwind(AssertUnwindSafe(|| {
            // Not the profiler's own cache: these names were not requested, so their memory is not kept.
            let symbols = Symbols::new(NAMES_MEMORY);
            while let Some(mut profile) = writer.take_unnamed() {
                symbols.symbolize(&mut profile);
                writer.keep_names(&profile)?;
            }
            Ok::<_, crate::Error>(())
        }));
        // Without names the windows are still there, and have names as long as the program's files are. A panic says that
        // some names cannot be looked up; the others are looked up next time.
        if let Ok(kept) = kept {
            if kept.is_err() {
                self.names_after = after;
                self.names_due = Instant::now() + after;
            }
            self.report_names(kept);
        }
    }

    /// Reports once that names cannot be kept, until they are.
    fn report_names(&mut self, kept: Result<()>) {
        let was_failing = std::mem::replace(&mut self.names_are_failing, kept.is_err());
        if let Err(error) = kept
            && !was_failing
        {
            to_standard_error(&format!(
                "the history cannot keep the names of functions ({error}); trying again"
            ));
        }
    }
}
