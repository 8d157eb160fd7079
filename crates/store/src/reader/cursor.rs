//! How far a reader that must not read anything twice has come, in a file next to the segments.
//!
//! The file is replaced as a whole, so it holds the old place or the new one whenever the process ends.

use std::fs;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Result};

use crate::files::folder::HistoryFolder;
use crate::files::sys;
use crate::reader::follow::Position;

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
    folder: HistoryFolder,
    path: PathBuf,
}

impl Cursor {
    /// Returns the cursor of this name in the folder of a history. The name consists of letters, digits and dashes.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::invalid(format!("a cursor cannot be called '{name}'")));
        }
        let folder = HistoryFolder::create(folder)?;
        let path = folder.path().join(format!("{name}.cursor"));
        Ok(Self { folder, path })
    }

    /// Returns the progress, or `None` if there never was any. Fails if there is a file that cannot be read, or makes no
    /// sense: then some progress was made, but it is unknown how much.
    pub fn read(&self) -> Result<Option<Progress>> {
        let bytes = match self.folder.read(&self.path, &Budget::new(Limits::SERVICE)) {
            Ok((bytes, _loan)) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = || Error::new(ErrorKind::Corrupt, format!("{}: is damaged", self.path.display()));
        parse(&bytes).map(Some).ok_or_else(damaged)
    }

    /// Keeps the progress.
    pub fn write(&self, progress: Progress) -> Result<()> {
        let Progress { position: Position { segment, windows }, parts } = progress;
        let new = self.path.with_extension("cursor-new");
        let _ = fs::remove_file(&new);
        let mut file = sys::create(&new).map_err(|error| Error::of_file(&new, &error))?;
        let text = format!("{HEADER}\n{segment} {windows} {parts}\n");
        // Without the sync, a machine that loses power may keep the new name and lose what is in the file.
        let written = sys::write(&mut file, text.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|error| Error::of_file(&new, &error))?;
        fs::rename(&new, &self.path).map_err(|error| Error::of_file(&self.path, &error))
    }
}

fn parse(bytes: &[u8]) -> Option<Progress> {
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix(HEADER)?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let position = Position { segment: next()?, windows: next()? };
    Some(Progress { position, parts: usize::try_from(next()?).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written_and_damage_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursor = Cursor::new(folder.path(), "push-1").expect("made");
        assert_eq!(cursor.read().expect("read"), None);
        for parts in [0, 3] {
            let progress = Progress { position: Position { segment: 7, windows: 12 }, parts };
            cursor.write(progress).expect("written");
            assert_eq!(cursor.read().expect("read"), Some(progress));
        }
        for bad in ["", "x", "flamelet cursor 1\n", "flamelet cursor 1\n1 2\n", "flamelet cursor 1\n1 -2 0\n"]
        {
            fs::write(folder.path().join("push-1.cursor"), bad).expect("written");
            let error = cursor.read().expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{bad:?}");
        }
        for bad in ["", "../x", "a b"] {
            assert!(Cursor::new(folder.path(), bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_keeps_the_old_progress() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursor = Cursor::new(folder.path(), "push-1").expect("made");
        let at = |segment| Progress { position: Position { segment, windows: 3 }, parts: 0 };
        cursor.write(at(1)).expect("written");
        let mut has_failed = 0;
        for room in 0.. {
            sys::faults::ROOM.set(room);
            let written = cursor.write(at(2));
            sys::faults::ROOM.set(usize::MAX);
            if written.is_ok() {
                break;
            }
            assert_eq!(cursor.read().expect("read"), Some(at(1)), "with {room} bytes");
            has_failed += 1;
        }
        assert!(has_failed > HEADER.len(), "{has_failed}");
        assert_eq!(cursor.read().expect("read"), Some(at(2)));
    }
}
