//! The recovery file and the emergency file: every start makes a new one, put in place once it is complete.
//!
//! ```text
//!  PATH.new-PID-N ── made, filled ──► renamed to PATH; what was there before becomes PATH.previous
//! ```
//!
//! So a service that is restarted right after it was killed does not wipe what its predecessor left, and two
//! processes that name the same path do not write to one file: the earlier one keeps its own, which is then called
//! `PATH.previous`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns where the file that was at `path` before the last start is now, if there was one: one generation is kept.
pub fn previous_file(path: &Path) -> PathBuf {
    with_ending(path, ".previous")
}

/// A new file that is not in place yet; removed unless it gets there.
pub(super) struct NewFile<'a> {
    pub(super) file: File,
    made: PathBuf,
    path: &'a Path,
    is_in_place: bool,
}

impl<'a> NewFile<'a> {
    /// Creates a file next to `path`, and the folder if it is missing.
    pub(super) fn create(path: &'a Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !std::fs::metadata(path).map_or(true, |metadata| metadata.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let made = with_ending(path, &format!(".new-{}-{number}", std::process::id()));
        // Left by a process with the same id that ended before it could rename it: no longer in use.
        let _ = std::fs::remove_file(&made);
        let file = File::options().read(true).write(true).create_new(true).open(&made)?;
        Ok(Self { file, made, path, is_in_place: false })
    }

    /// Gives it its name; the file that had the name becomes the previous one, if it is worth keeping. A process that
    /// has that file open or mapped keeps it in any case.
    pub(super) fn put_in_place(mut self, is_worth_keeping: impl Fn(&Path) -> bool) -> io::Result<File> {
        if is_worth_keeping(self.path) {
            match std::fs::rename(self.path, previous_file(self.path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.made, self.path)?;
        self.is_in_place = true;
        self.file.try_clone()
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = std::fs::remove_file(&self.made);
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_there_before_is_kept_once() {
        let folder = std::env::temp_dir().join(format!("flamelet-files-{}", std::process::id()));
        // An earlier process may have had the same id, and been killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("heap.ledger");
        for (text, keeps_old) in [("first", true), ("second", true), ("of no use", true), ("third", false)] {
            let mut new = NewFile::create(&path).expect("made");
            new.file.write_all(text.as_bytes()).expect("written");
            new.put_in_place(|_| keeps_old).expect("renamed");
        }
        drop(NewFile::create(&path).expect("made, and given up"));
        assert_eq!(std::fs::read(&path).expect("the last"), b"third");
        assert_eq!(std::fs::read(previous_file(&path)).expect("the one before"), b"second");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2);
        assert!(NewFile::create(&folder).is_err());
        let deep = folder.join("made/on/demand/heap.ledger");
        NewFile::create(&deep).expect("made").put_in_place(|_| true).expect("renamed");
        assert!(deep.is_file());
        let below_file = path.join("heap.ledger");
        assert!(NewFile::create(&below_file).is_err(), "a file is no folder");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
