//! The folder of one recording: the library, and what it writes.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_preload_ledger::env;

use super::{Library, system};
use crate::{Error, ErrorKind, Result};

/// Removed when dropped.
pub(super) struct Folder {
    path: PathBuf,
    library: PathBuf,
}

impl Folder {
    /// Makes a folder and puts the library into it.
    pub(super) fn new(library: Library) -> Result<Self> {
        if library.bytes.is_empty() {
            let message = "this flamelet was built without its preloaded library (a static or a checking build); \
                           build it for a target with shared libraries, such as x86_64-unknown-linux-gnu";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let path = Self::make()?;
        let library_path = path.join(library.name);
        let folder = Self { path, library: library_path };
        std::fs::write(&folder.library, library.bytes)?;
        std::fs::set_permissions(&folder.library, std::fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    /// On a disk rather than in memory, where programs may be run from, and with a name that the loader can read.
    fn make() -> Result<PathBuf> {
        let places = [PathBuf::from("/var/tmp"), std::env::temp_dir(), std::env::current_dir()?];
        let is_usable = |place: &&PathBuf| {
            let name = place.to_string_lossy();
            place.is_absolute() && !name.contains([' ', ':']) && !system::is_noexec(place)
        };
        // Children may run as other users, if we are one who can start such.
        let mode = if system::is_root() { 0o1777 } else { 0o700 };
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for place in places.iter().filter(is_usable) {
            for turn in 0..100 {
                let path = place.join(format!("flamelet-{}-{turn}", std::process::id()));
                match std::fs::DirBuilder::new().mode(mode).create(&path) {
                    Ok(()) => {
                        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
                        return Ok(path);
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        failure = error;
                        break;
                    }
                }
            }
        }
        let message = format!(
            "no folder for the recording in /var/tmp, the temporary folder or here: {failure}; set TMPDIR to one that \
             can be written and from which programs may be run, without spaces or colons in its name"
        );
        Err(Error::new(ErrorKind::Io, message))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets `command` load the library before others that it loads first.
    pub(super) fn preload_into(&self, command: &mut Command) {
        let mut list = OsString::from(&self.library);
        if let Some(others) = std::env::var_os(env::PRELOAD).filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        command.env(env::PRELOAD, list);
    }

    /// The files with this ending, in the order in which they were made.
    pub(super) fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
        files
            .sort_by_key(|path| (std::fs::metadata(path).and_then(|file| file.created()).ok(), path.clone()));
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
