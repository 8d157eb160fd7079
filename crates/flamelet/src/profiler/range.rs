//! Profiles of the past, from the history on disk.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flamelet_capture::profile::{Budget, Limits, Profile, moment};
use flamelet_store::{Query, Reader};

use super::metrics::count;
use super::{Profiler, ProfilerBuilder};
use crate::history::{CPU, History};
use crate::{Error, ErrorKind, Result};

impl ProfilerBuilder {
    /// Samples all the time at a low rate and keeps the samples on disk, in this folder: [`Profiler::range`],
    /// `?from=&to=` and `flamelet top FOLDER --from -1h` answer what the service did last night, also after a restart
    /// or a crash, and with the function names of builds that were replaced. Give a path, or a [`History`] to choose
    /// how much is kept.
    ///
    /// A folder that cannot be written is not an error: it is reported on standard error, once, and tried again.
    pub fn history(mut self, history: impl Into<History>) -> Self {
        self.history = Some(history.into());
        self
    }

    /// Sets how long the end of the profiler (when its last clone is dropped) may take: so long for the last window to be
    /// written to the history, and so long again for the receivers of [`push`](ProfilerBuilder::push) to take it; 5
    /// seconds by default. What is not pushed by then is pushed after a restart.
    pub fn shutdown_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.settings.shutdown_timeout = timeout;
        self
    }
}

impl Profiler {
    /// Returns where CPU time went between two moments in the past. Needs [`ProfilerBuilder::history`].
    ///
    /// A window belongs to the range if its middle does; the window that is being sampled is not there yet. Like
    /// [`CpuRequest::run`](crate::CpuRequest::run), this looks up names: in async code, call it on a blocking thread.
    pub fn range(&self, from: SystemTime, to: SystemTime) -> Result<Profile> {
        self.range_of(CPU, from, to)
    }

    /// Like [`range`](Self::range), of other windows: `heap` (memory at the end of the range), `allocs` (what was
    /// allocated in it), `block`, `mutex`, `await` and `blocked`, in services that count these.
    pub fn range_of(&self, kind: &str, from: SystemTime, to: SystemTime) -> Result<Profile> {
        self.windows_between(kind, nanos(from), nanos(to))
    }

    /// Returns the folder of the history, if there is one.
    pub fn history_folder(&self) -> Option<&Path> {
        self.shared.history.as_ref().map(|running| running.path())
    }

    /// Returns the windows of a kind between two moments; of the heap, its last moment there.
    pub(crate) fn windows_between(&self, kind: &str, from: i64, to: i64) -> Result<Profile> {
        let Some(folder) = self.history_folder() else {
            let message = "the service keeps no history: build the profiler with `.history(…)`";
            return Err(Error::new(ErrorKind::NotEnabled, message));
        };
        moment::range(from, to)?;
        let reader = Reader::open(folder)?;
        let profile = self.selected(&reader, &Query::new(kind, from, to))?;
        profile.ok_or_else(|| nothing(&reader, kind, from, to))
    }

    /// Returns what a query finds, with names: those that the history keeps, and those of existing files.
    pub(crate) fn selected(&self, reader: &Reader, query: &Query<'_>) -> Result<Option<Profile>> {
        let budget = Budget::new(Limits::SERVICE);
        let (profile, skipped) = reader.range(query, &budget)?;
        let Some(mut profile) = profile else { return Ok(None) };
        skipped.notes().iter().for_each(|note| profile.add_comment(note));
        profile.add_comment(&format!("service {}", self.name()));
        if self.shared.settings.symbolize {
            reader.add_names(&mut profile, &budget)?;
            self.symbolize(&mut profile);
        }
        count(&self.shared.counters.served);
        Ok(Some(profile))
    }
}

/// Returns the error of a range without windows, which says what there is.
fn nothing(reader: &Reader, kind: &str, from: i64, to: i64) -> Error {
    let span = reader.span(&Budget::new(Limits::SERVICE)).ok().flatten();
    let there = match span {
        Some((first, last)) => {
            format!("the history covers {} to {}", moment::format(first), moment::format(last))
        }
        None => "the history has no window yet".to_owned(),
    };
    let (from, to) = (moment::format(from), moment::format(to));
    Error::new(ErrorKind::NotFound, format!("there is no {kind} window between {from} and {to}; {there}"))
}

fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}
