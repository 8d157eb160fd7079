//! A readable file at any moment.

use std::fs::Permissions;
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flamelet_profile::{Profile, pprof};

use crate::Checkpoint;

/// Writes `profile` beside `path` and moves it there when it is whole, so that a full disk or a kill in the
/// middle leaves the file from before. The folder may be one in which others can write: the file beside has a name
/// that nobody can guess, and is new.
pub(crate) fn replace_file(path: &Path, profile: &Profile) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::Builder::new();
    // As any other program creates files: for everybody to read, less the umask.
    part.prefix(".flamelet-").suffix(".part").permissions(Permissions::from_mode(0o666));
    let mut out = BufWriter::new(part.tempfile_in(folder)?);
    pprof::write_gzip(profile, &mut out).map_err(io::Error::other)?;
    let part = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    part.persist(path).map(drop).map_err(|error| error.error)
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
