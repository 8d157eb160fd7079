//! How far a reader that must not read anything twice has come, in a file next to the segments.
//!
//! The file is replaced as a whole, so it holds the old place or the new one whenever the process ends.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Error, Limits, Result};

use crate::error::about;
use crate::folder::Folder;
use crate::follow::Position;
use crate::sys;

const HEADER: &str = "flamelet cursor 1";

/// How far a reader has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Behind the last window that is done.
    pub position: Position,
    /// How many parts of the next window are done.
    pub parts: usize,
}

/// The file that keeps the progress of one reader.
#[derive(Debug)]
pub struct Cursor {
    folder: Folder,
    path: PathBuf,
}

impl Cursor {
    /// Returns the cursor of this name in the folder of a history. The name consists of letters, digits and dashes.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::invalid(format!("a cursor cannot be called '{name}'")));
        }
        let folder = Folder::create(folder)?;
        let path = folder.path().join(format!("{name}.cursor"));
        Ok(Self { folder, path })
    }

    /// Returns the progress, or `None` if there is no file, or one that makes no sense.
    pub fn read(&self) -> Option<Progress> {
        let (bytes, _loan) = self.folder.read(&self.path, &Budget::new(Limits::SERVICE)).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?.strip_prefix(HEADER)?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let position = Position { segment: next()?, windows: next()? };
        Some(Progress { position, parts: usize::try_from(next()?).ok()? })
    }

    /// Keeps the progress.
    pub fn write(&self, progress: Progress) -> Result<()> {
        let Progress { position: Position { segment, windows }, parts } = progress;
        let new = self.path.with_extension("cursor-new");
        let _ = fs::remove_file(&new);
        let mut file = sys::create(&new).map_err(|error| about(&new, &error))?;
        let text = format!("{HEADER}\n{segment} {windows} {parts}\n");
        file.write_all(text.as_bytes()).map_err(|error| about(&new, &error))?;
        fs::rename(&new, &self.path).map_err(|error| about(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written_and_damage_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursor = Cursor::new(folder.path(), "push-1").expect("made");
        assert_eq!(cursor.read(), None);
        for parts in [0, 3] {
            let progress = Progress { position: Position { segment: 7, windows: 12 }, parts };
            cursor.write(progress).expect("written");
            assert_eq!(cursor.read(), Some(progress));
        }
        for bad in ["", "x", "flamelet cursor 1\n", "flamelet cursor 1\n1 2\n", "flamelet cursor 1\n1 -2 0\n"]
        {
            fs::write(folder.path().join("push-1.cursor"), bad).expect("written");
            assert_eq!(cursor.read(), None, "{bad:?}");
        }
        for bad in ["", "../x", "a b"] {
            assert!(Cursor::new(folder.path(), bad).is_err(), "{bad:?}");
        }
    }
}
