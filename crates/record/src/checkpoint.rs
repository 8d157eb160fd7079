//! A readable file at any moment.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use flamelet_profile::{Profile, pprof};

use crate::Checkpoint;

/// Writes `profile` beside `path` and moves it there when it is whole, so that a full disk or a kill in the
/// middle leaves the file from before.
pub(crate) fn replace_file(path: &Path, profile: &Profile) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = write_file(&part, profile).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn write_file(path: &Path, profile: &Profile) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    pprof::write_gzip(profile, &mut out).map_err(io::Error::other)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.flush()
}

/// When to save next, and what went wrong when saving.
pub(crate) struct Saver {
    checkpoint: Checkpoint,
    next: Instant,
    pub(crate) failure: Option<io::Error>,
}

impl Saver {
    pub(crate) fn new(checkpoint: Checkpoint) -> Self {
        let next = Instant::now() + checkpoint.every;
        Self { checkpoint, next, failure: None }
    }

    /// Saves what `profile` makes if it is time to.
    pub(crate) fn save_if_due(&mut self, profile: impl FnOnce() -> Profile) {
        /// Saving takes at most this part of the time.
        const SHARE: u32 = 50;
        let now = Instant::now();
        if now < self.next {
            return;
        }
        // The recording goes on when the disk is full: there may be room at the end, or another place.
        self.failure = (self.checkpoint.save)(&profile()).err();
        let pause: Duration = self.checkpoint.every.max(now.elapsed() * SHARE);
        self.next = Instant::now() + pause;
    }
}
