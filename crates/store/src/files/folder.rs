//! The folder of a history: which files are in it, and what their names say.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Error, ErrorKind, Result};

use crate::files::sys;

/// The longest segment that is read.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// More files than this are not listed.
const MAX_FILES: usize = 100_000;
const LOCK: &str = "history.lock";

/// Takes a lock in the folder `path` by its file `name`, which is created if it does not exist, and holds it until the
/// returned file is dropped. If another process holds it, the error says `message`.
pub fn lock(path: &Path, name: &str, message: &str) -> Result<fs::File> {
    let folder = HistoryFolder::open(path)?;
    lock_file(&path.join(name), &folder.owners, path, message)
}

/// Releases a lock at once. Without it, a child that is between fork and exec may hold the lock for a while longer.
pub fn unlock(file: &fs::File) {
    sys::unlock(file);
}

fn lock_file(path: &Path, owners: &[u32], folder: &Path, message: &str) -> Result<fs::File> {
    let file = sys::open_mark(path, owners).map_err(|error| Error::of_file(path, &error))?;
    match sys::lock(&file) {
        Ok(()) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Error::new(ErrorKind::Busy, format!("{}: {message}", folder.display())))
        }
        Err(error) => Err(Error::of_file(path, &error)),
    }
}

/// Returns whether `path` is a folder with a history in it.
pub fn is_history(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    let is_ours =
        |name: &OsStr| name == LOCK || name.to_str().is_some_and(|name| SegmentName::parse(name).is_some());
    entries.take(MAX_FILES).flatten().any(|entry| is_ours(&entry.file_name()))
}

/// What the name of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// Counts up from segment to segment.
    pub(crate) number: u64,
    /// From when to when its windows reach, in seconds since 1970; `None` while it is being written.
    pub(crate) span: Option<(i64, i64)>,
}

impl SegmentName {
    fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("history-")?;
        if let Some(number) = name.strip_suffix(".open") {
            return Some(Self { number: digits(number)?, span: None });
        }
        let mut parts = name.strip_suffix(".segment")?.split('-');
        let (number, from, to) = (parts.next()?, parts.next()?, parts.next()?);
        let time = |text| digits(text).and_then(|seconds| i64::try_from(seconds).ok());
        let span = Some((time(from)?, time(to)?));
        parts.next().is_none().then_some(Self { number: digits(number)?, span })
    }

    /// Returns what the sum of a finished segment names; `None` if it is another file.
    fn parse_sum(name: &str) -> Option<Self> {
        Self::parse(&format!("{}.segment", name.strip_suffix(".sum")?))
    }

    pub(crate) fn file_name(&self) -> String {
        match self.span {
            None => format!("history-{:010}.open", self.number),
            Some((from, to)) => format!("history-{:010}-{}-{}.segment", self.number, from.max(0), to.max(0)),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A segment in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentEntry {
    pub(crate) name: SegmentName,
    pub(crate) bytes: u64,
}

/// The file with the names of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamesFile {
    pub(crate) build_id: String,
    /// The last segment that has code of the build.
    pub(crate) segment: u64,
}

impl NamesFile {
    fn parse(name: &str) -> Option<Self> {
        let (build_id, segment) = name.strip_prefix("names-")?.strip_suffix(".names")?.split_once('-')?;
        is_build_id(build_id).then_some(Self { build_id: build_id.to_owned(), segment: digits(segment)? })
    }
}

/// Returns whether a build id can be part of a file name.
fn is_build_id(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A folder that exists.
#[derive(Clone, Debug)]
pub(crate) struct HistoryFolder {
    path: PathBuf,
    /// The users whose files are trusted.
    owners: Vec<u32>,
}

impl HistoryFolder {
    /// Opens a folder to read from.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).map_err(|error| Error::of_file(path, &error))?;
        if !found.is_dir() {
            return Err(Error::new(ErrorKind::WrongFormat, format!("{}: is not a folder", path.display())));
        }
        let owners = vec![sys::own_user(), 0, sys::owner(&found)];
        Ok(Self { path: path.to_owned(), owners })
    }

    /// Opens a folder to write to, and creates it if it does not exist.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|error| Error::of_file(path, &error))?;
        Self::open(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &SegmentName) -> PathBuf {
        self.path.join(name.file_name())
    }

    /// Returns the path of a finished segment's sum.
    pub(crate) fn sum(&self, name: &SegmentName) -> PathBuf {
        self.file(name).with_extension("sum")
    }

    /// Returns the sums of segments, and their sizes.
    pub(crate) fn sums(&self) -> Vec<(SegmentName, u64)> {
        self.files(SegmentName::parse_sum)
    }

    /// Removes sums that a killed process has left unfinished.
    pub(crate) fn remove_unfinished_sums(&self) {
        let unfinished = self.files(|name| name.ends_with(".sum-new").then(|| name.to_owned()));
        unfinished.iter().for_each(|(name, _)| self.remove(&self.path.join(name)));
    }

    /// Takes the lock of the writer, which is held until the file is dropped.
    pub(crate) fn lock(&self) -> Result<fs::File> {
        let message = "another process writes its history here; give each its own folder";
        lock_file(&self.path.join(LOCK), &self.owners, &self.path, message)
    }

    /// Returns whether this lock is the one in the folder; not if the folder is another one by now.
    pub(crate) fn is_locked_by(&self, lock: &fs::File) -> bool {
        sys::is_same_file(lock, &self.path.join(LOCK)).unwrap_or(false)
    }

    /// Returns the segments in the order in which they were written.
    pub(crate) fn segments(&self) -> Result<Vec<SegmentEntry>> {
        // A file that is renamed while its folder is listed may be missing from the list, so two lists must agree.
        const TRIES: usize = 10;
        let numbers =
            |found: &[SegmentEntry]| found.iter().map(|entry| entry.name.number).collect::<Vec<_>>();
        let mut found = self.list_segments()?;
        for _ in 0..TRIES {
            let again = self.list_segments()?;
            let is_same = numbers(&again) == numbers(&found);
            found = again;
            if is_same {
                break;
            }
        }
        Ok(found)
    }

    fn list_segments(&self) -> Result<Vec<SegmentEntry>> {
        let mut found = Vec::new();
        for entry in
            fs::read_dir(&self.path).map_err(|error| Error::of_file(&self.path, &error))?.take(MAX_FILES)
        {
            let entry = entry.map_err(|error| Error::of_file(&self.path, &error))?;
            let Some(name) = entry.file_name().to_str().and_then(SegmentName::parse) else { continue };
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() => {
                    found.push(SegmentEntry { name, bytes: metadata.len() });
                }
                Ok(_) => {}
                // Removed or renamed meanwhile: readers look for its new name.
                Err(_) => found.push(SegmentEntry { name, bytes: 0 }),
            }
        }
        found.sort_unstable();
        // A segment that is finished meanwhile may be listed under both of its names: the new one is right.
        found.reverse();
        found.dedup_by_key(|entry| entry.name.number);
        found.reverse();
        Ok(found)
    }

    /// Returns the files with names, and their sizes.
    pub(crate) fn names(&self) -> Vec<(NamesFile, u64)> {
        self.files(NamesFile::parse)
    }

    /// Returns the files whose names `parse` knows, and their sizes.
    fn files<T>(&self, parse: impl Fn(&str) -> Option<T>) -> Vec<(T, u64)> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let found = entries.take(MAX_FILES).flatten().filter_map(|entry| {
            let file = parse(entry.file_name().to_str()?)?;
            Some((file, entry.metadata().ok().filter(fs::Metadata::is_file)?.len()))
        });
        found.collect()
    }

    pub(crate) fn names_of(&self, build_id: &str) -> Option<NamesFile> {
        let of_build =
            self.names().into_iter().map(|(file, _)| file).filter(|file| file.build_id == build_id);
        of_build.max_by_key(|file| file.segment)
    }

    pub(crate) fn names_path(&self, file: &NamesFile) -> PathBuf {
        self.path.join(format!("names-{}-{:010}.names", file.build_id, file.segment))
    }

    /// Reads a file whole. Its bytes are charged to the budget until the loan is dropped.
    pub(crate) fn read(&self, path: &Path, budget: &Budget) -> Result<(Vec<u8>, Loan)> {
        let file = sys::open(path, &self.owners).map_err(|error| Error::of_file(path, &error))?;
        let length = file.metadata().map_err(|error| Error::of_file(path, &error))?.len();
        if length > MAX_FILE {
            let message = format!("{}: is longer than any file of a history", path.display());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let loan = budget.lend(length as usize)?;
        let mut bytes = Vec::with_capacity(length as usize);
        file.take(length).read_to_end(&mut bytes).map_err(|error| Error::of_file(path, &error))?;
        Ok((bytes, loan))
    }

    /// Opens a file to read from it; `None` if there is none.
    pub(crate) fn open_file(&self, path: &Path) -> Result<Option<fs::File>> {
        match sys::open(path, &self.owners) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::of_file(path, &error)),
        }
    }

    /// Removes a file of this user. One that cannot be removed must not keep new windows from being written.
    pub(crate) fn remove(&self, path: &Path) {
        if path.symlink_metadata().is_ok_and(|found| sys::owner(&found) == sys::own_user()) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_not_ours() {
        for name in [
            SegmentName { number: 7, span: None },
            SegmentName { number: 12_345_678_901, span: Some((1_794_706_806, 1_794_710_406)) },
        ] {
            assert_eq!(SegmentName::parse(&name.file_name()), Some(name));
        }
        for other in ["history-.open", "history-1.segment", "history-1-2.segment", "history-1-2-3-4.segment"]
        {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
        for other in ["history-+1.open", "history-1--2-3.segment", "x", "history-99999999999999999999.open"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_folders_are_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = HistoryFolder::open(folder.path()).expect("opened");
        let [real, link, inner] = ["real", "link", "inner"].map(|name| folder.path().join(name));
        fs::write(&real, "x").expect("written");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        fs::create_dir(&inner).expect("made");
        let budget = Budget::new(flamelet_profile::Limits::SERVICE);
        assert_eq!(history.read(&real, &budget).expect("read").0, b"x");
        for bad in [link, inner] {
            assert!(history.read(&bad, &budget).is_err(), "{}", bad.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn one_writer_holds_the_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = HistoryFolder::open(folder.path()).expect("opened");
        let held = history.lock().expect("free");
        let error = history.lock().expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy);
        drop(held);
        history.lock().expect("free again");
        assert!(is_history(folder.path()));
    }
}
