//! Checkpoints: a readable file on disk at any moment.

use std::fs::Permissions;
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flamelet_profile::{Profile, pprof};

use crate::Checkpoint;

/// Writes `profile` to a temporary file next to `path` and renames it when it is complete, so that a full disk or a
/// kill leaves the previous file intact. Others may have write access to the folder: the temporary file is created
/// new, under a name that cannot be guessed.
pub(crate) fn replace_file(path: &Path, profile: &Profile) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::Builder::new();
    // Created like any program's files: readable by everyone, less the umask.
    part.prefix(".flamelet-").suffix(".part").permissions(Permissions::from_mode(0o666));
    let mut out = BufWriter::new(part.tempfile_in(folder)?);
    pprof::write_gzip(profile, &mut out).map_err(io::Error::other)?;
    let part = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    part.persist(path).map(drop).map_err(|error| error.error)
}

/// Decides when to save next, and keeps the last error.
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

    /// Saves the result of `profile` if a save is due.
    pub(crate) fn save_if_due(&mut self, profile: impl FnOnce() -> Profile) {
        /// Saving takes at most one part in this many of the time.
        const SHARE: u32 = 50;
        let now = Instant::now();
        if now < self.next {
            return;
        }
        // A full disk does not end the recording: there may be room at the end, or in another place.
        self.failure = (self.checkpoint.save)(&profile()).err();
        let pause: Duration = self.checkpoint.every.max(now.elapsed() * SHARE);
        self.next = Instant::now() + pause;
    }
}
