//! The folder into which the processes of one recording write.
//!
//! ```text
//! /var/tmp/flamelet-RANDOM/    mode 711, ours: nobody else can list it
//!     RANDOM/                  mode 1733 for root, whose children may run as other users; else 700
//!         PID-N.counts …
//! ```
//!
//! The inner name is a secret that only the environment of the recorded processes contains: other users can neither
//! write into the folder nor recreate it once it is gone. A recorded process of another user may write anything
//! there, so its files are not trusted: no links, pipes or devices, and no more than [`MOST_BYTES`] of a file.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_preload_ledger::env;

use super::private::{self, Others};
use super::{Library, library};
use crate::sweeper::Sweeper;
use crate::sys::files;
use crate::{Error, ErrorKind, Result};

/// The prefix of these folders' names.
const PREFIX: &str = "flamelet-";
/// A file of counts has 64 bytes for each distinct stack; this is room for sixteen million.
pub(super) const MOST_BYTES: u64 = 1 << 30;
/// The most files of one recording, whose processes have up to three each, and the most bytes that are read of all of
/// them together: what they hold is in memory at once.
const MOST_FILES: usize = 300_000;
const MOST_OF_ALL: u64 = 2 << 30;

/// A folder that is removed on drop, or by the sweeper if the recorder is killed.
pub(super) struct PreloadFolder {
    outer: PathBuf,
    inner: PathBuf,
    library: PathBuf,
    /// Shows other recorders that this folder is in use.
    _lock: File,
    sweeper: Option<Sweeper>,
}

impl PreloadFolder {
    /// Creates a folder, on a disk rather than in memory if possible, and installs the library where it can be
    /// loaded.
    pub(super) fn new(library: Library) -> Result<Self> {
        let library = library::install(library)?;
        let mut refused = Vec::new();
        for place in [PathBuf::from("/var/tmp"), std::env::temp_dir(), std::env::current_dir()?] {
            match Self::make_in(&place, &library) {
                Ok(folder) => return Ok(folder),
                Err(why) => refused.push(why),
            }
        }
        let message =
            format!("no folder for the recording: {}; set TMPDIR to a writable folder", refused.join("; "));
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Creates the folder in `place`.
    fn make_in(place: &Path, library: &Path) -> std::result::Result<Self, String> {
        if let Some(why) = private::weakness(place, Others::AddOnly) {
            return Err(why);
        }
        remove_forgotten(place);
        let failed = |error: io::Error| format!("{}: {error}", place.display());
        let (outer_mode, inner_mode) = if files::is_root() { (0o711, 0o1733) } else { (0o700, 0o700) };
        let outer = place.join(format!("{PREFIX}{}", files::random_name().map_err(failed)?));
        let inner = outer.join(files::random_name().map_err(failed)?);
        private::make_folder(&outer, outer_mode).map_err(failed)?;
        let sweeper = Sweeper::of_folder(&outer);
        let lock = File::open(&outer).map_err(failed)?;
        files::lock(&lock).map_err(failed)?;
        let folder = Self { outer, inner, library: library.to_owned(), _lock: lock, sweeper };
        private::make_folder(&folder.inner, inner_mode).map_err(failed)?;
        Ok(folder)
    }

    /// Makes `command` load the library before its other preloaded ones, and write into this folder.
    pub(super) fn preload_into(&self, command: &mut Command) {
        let mut list = OsString::from(&self.library);
        if let Some(others) = std::env::var_os(env::PRELOAD).filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        command.env(env::PRELOAD, list).env(env::FOLDER, &self.inner);
    }

    /// Returns the files with this extension, in the order of their creation.
    pub(super) fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.inner).into_iter().flatten().flatten();
        let paths = entries.take(MOST_FILES).map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
        let born = |path: &PathBuf| path.symlink_metadata().and_then(|file| file.created()).ok();
        files.sort_by_cached_key(|path| (born(path), path.clone()));
        files
    }

    /// Reads one of the files; `None` if the library cannot have written it.
    pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
        private::read(path, MOST_BYTES).ok()
    }
}

/// How much of a recording's files may still be read.
pub(super) struct Room {
    left: u64,
    /// Files that there was no room for.
    pub(super) left_out: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { left: MOST_OF_ALL, left_out: 0 }
    }

    /// Reads one of the files, of at most `most` bytes; `None` if the library cannot have written it, or if there is no room.
    pub(super) fn read(&mut self, path: &Path, most: u64) -> Option<Vec<u8>> {
        match private::read(path, most.min(self.left)) {
            Ok(bytes) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(bytes)
            }
            Err(error) => {
                self.left_out += usize::from(error.kind() == io::ErrorKind::FileTooLarge && self.left < most);
                None
            }
        }
    }
}

impl Drop for PreloadFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.outer);
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.dismiss();
        }
    }
}

/// Removes the folders of recorders that were killed together with their sweepers: those that are not locked.
fn remove_forgotten(place: &Path) {
    let (user, _) = files::own_ids();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_ours = || path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_named && is_ours() && File::open(&path).is_ok_and(|folder| files::lock(&folder).is_ok()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_in(place: &Path) -> PreloadFolder {
        PreloadFolder::make_in(place, Path::new("/lib.so")).expect("a private folder")
    }

    #[test]
    fn a_folder_is_private_and_is_removed_with_its_recording() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = made_in(place.path());
        let mode = |path: &Path| path.symlink_metadata().expect("there").mode() & 0o7777;
        assert_eq!(mode(&folder.outer) & 0o066, 0, "nobody else may list it");
        assert!(matches!(mode(&folder.inner), 0o700 | 0o1733));
        assert_ne!(made_in(place.path()).inner.file_name(), folder.inner.file_name());
        let outer = folder.outer.clone();
        drop(folder);
        assert!(!outer.exists());
    }

    #[test]
    fn what_all_processes_left_is_read_up_to_a_limit() {
        let place = tempfile::tempdir().expect("a folder");
        let file = |name: &str, length: u64| {
            let path = place.path().join(name);
            File::create(&path).and_then(|file| file.set_len(length)).expect("ours");
            path
        };
        let mut room = Room { left: 100, left_out: 0 };
        let mut lengths = |path: PathBuf, most: u64| {
            let read = room.read(&path, most).map(|bytes| bytes.len());
            (read, room.left_out)
        };
        assert_eq!(lengths(file("a", 60), 80), (Some(60), 0));
        assert_eq!(lengths(file("large", 30), 20), (None, 0), "of its own");
        assert_eq!(lengths(file("b", 60), 80), (None, 1), "40 are left");
        assert_eq!(lengths(file("c", 40), 80), (Some(40), 1));
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_what_another_one_uses_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let used = made_in(place.path());
        let left = place.path().join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("inner")).expect("ours");
        std::fs::create_dir(place.path().join("other")).expect("ours");
        let _new = made_in(place.path());
        assert!(!left.exists() && used.inner.exists() && place.path().join("other").exists());
    }
}
