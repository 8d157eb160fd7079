//! The one writer of a history.

pub(crate) mod options;
pub(crate) mod retention;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile, Result, moment};

use crate::files::folder::{HistoryFolder, SegmentName};
use crate::files::sys;
use crate::names::BuildNames;
use crate::segment;
use crate::segment::encode::Encoder;
use crate::segment::span::Span;
use crate::segment::sum;
use crate::writer::options::Options;
use crate::writer::retention::Kept;

const NANOS: i64 = 1_000_000_000;
/// The next segment is begun when the tables of this one take this many bytes.
const MAX_TABLES: usize = 5 << 20;

/// How many names that are already taken are skipped before a window is given up.
const MAX_TAKEN: usize = 100;

/// What a writer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Windows that were acknowledged.
    pub windows: u64,
    /// Windows that could not be written.
    pub failed: u64,
    /// Bytes of the acknowledged windows.
    pub bytes: u64,
}

/// Appends windows to the history in a folder. Only one process can be its writer.
///
/// Dropping it finishes the segment; a process that is killed does not, and loses nothing by it.
#[derive(Debug)]
pub struct Writer {
    folder: HistoryFolder,
    options: Options,
    /// Held as long as the writer lives.
    lock: File,
    segment: Option<Open>,
    next_number: u64,
    status: Status,
    names: BuildNames,
    /// The child of a fork has a copy of the writer, but the history is not its own.
    process: u32,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    name: SegmentName,
    path: PathBuf,
    file: File,
    encoder: Encoder,
    /// Bytes of acknowledged windows.
    length: u64,
    /// From when to when its windows reach, in nanoseconds.
    span: Span,
}

impl Writer {
    /// Takes over the history in `path`, which is created if it does not exist.
    ///
    /// Fails if another process writes there, or if the folder cannot be written.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        options.check()?;
        let folder = HistoryFolder::create(path)?;
        let lock = folder.lock()?;
        let mut writer = Self {
            folder,
            options,
            lock,
            segment: None,
            next_number: 1,
            status: Status::default(),
            names: BuildNames::default(),
            process: std::process::id(),
        };
        writer.join_what_is_there()?;
        writer.remove_old()?;
        Ok(writer)
    }

    /// Returns what was written so far.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Appends a window under the name of its kind, such as `cpu`. When this returns `Ok`, the window survives
    /// whatever happens to the process.
    ///
    /// Names of functions are left out where they can be looked up by build id, and so are the timeline and the
    /// comments. An error changes nothing in what was written before, and the next call tries again.
    pub fn append(&mut self, kind: &str, profile: &Profile) -> Result<()> {
        let outcome = self.try_append(kind, profile);
        match &outcome {
            Ok(bytes) => {
                self.status.windows += 1;
                self.status.bytes += bytes;
                let segment = self.segment.as_ref().map_or(0, |open| open.name.number);
                self.names.see(&self.folder, profile, segment);
            }
            Err(_) => self.status.failed += 1,
        }
        outcome.map(drop)
    }

    /// Returns code that occurred in windows and whose names are not kept yet, as a profile without samples. Look its
    /// names up while the program's files exist, and give them to [`Writer::keep_names`]. Each place is returned
    /// once, unless its names could not be kept, and some thousands in a call, so that their names need little memory:
    /// call it until it returns `None`.
    pub fn take_unnamed(&mut self) -> Option<Profile> {
        self.names.take_wanted()
    }

    /// Keeps the names in `profile`, by build id, as long as there are windows of that build. Returns how many places
    /// in the code have got names. Fails if all names together would take more than a quarter of the history. After a
    /// failure, [`Writer::take_unnamed`] returns the places again.
    pub fn keep_names(&mut self, profile: &Profile) -> Result<usize> {
        let kept = self.try_keep_names(profile);
        if kept.is_err() {
            self.names.give_back(profile);
        }
        kept
    }

    fn try_keep_names(&mut self, profile: &Profile) -> Result<usize> {
        let bytes: u64 = self.folder.names().iter().map(|(_, bytes)| bytes).sum();
        if bytes > self.options.bytes / 4 {
            let message = format!("{}: there is no room for more names", self.folder.path().display());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.names.keep(&self.folder, profile)
    }

    /// Ends the segment that is being written, so that its name says what it covers.
    pub fn finish_segment(&mut self) {
        if let Some(open) = self.segment.take() {
            let _ = open.file.sync_data();
            open.finish(&self.folder, true);
        }
    }

    fn try_append(&mut self, kind: &str, profile: &Profile) -> Result<u64> {
        let start = profile.header.time_nanos;
        let end = start.saturating_add(profile.header.duration_nanos);
        let limit = self.options.segment_bytes.min(self.options.bytes / 8);
        let fits = |open: &Open| {
            open.length < limit
                && open.encoder.memory() < MAX_TABLES
                && open.continues(start, end, &self.options)
        };
        if self.segment.as_ref().is_some_and(|open| open.is_gone()) {
            // The file was removed: what is written to it is lost.
            self.segment = None;
        }
        if !self.segment.as_ref().is_some_and(fits) {
            self.finish_segment();
            self.begin()?;
        }
        let Some(open) = &mut self.segment else {
            return Err(Error::new(ErrorKind::Internal, "there is no segment to write to"));
        };
        match open.append(kind, profile, (start, end)) {
            Ok(bytes) => Ok(bytes),
            Err(error) => {
                // Its tables have rows that no record has, so nothing more can be appended.
                self.segment.take().into_iter().for_each(|open| open.finish(&self.folder, false));
                Err(error)
            }
        }
    }

    fn begin(&mut self) -> Result<()> {
        // The folder may have been removed; its parent is not made again, since that may be a disk that is gone.
        if let Err(error) = fs::create_dir(self.folder.path())
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(Error::of_file(self.folder.path(), &error));
        }
        if !self.folder.is_locked_by(&self.lock) {
            // It was removed, or another disk is in its place.
            self.lock = self.folder.lock()?;
            self.names = BuildNames::default();
            self.join_what_is_there()?;
        }
        self.remove_old()?;
        let (name, path, file) = self.create()?;
        self.segment =
            Some(Open { name, path, file, encoder: Encoder::new(), length: 0, span: Span::default() });
        Ok(())
    }

    /// Creates the file of the next segment. A name that something else has taken is passed over.
    fn create(&mut self) -> Result<(SegmentName, PathBuf, File)> {
        for _ in 0..MAX_TAKEN {
            let name = SegmentName { number: self.next_number, span: None };
            let path = self.folder.file(&name);
            self.next_number += 1;
            match sys::create(&path) {
                Ok(file) => return Ok((name, path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    self.next_number -= 1;
                    return Err(Error::of_file(&path, &error));
                }
            }
        }
        let message = format!("{}: all names for segments are taken", self.folder.path().display());
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Continues after the segments of writers before.
    fn join_what_is_there(&mut self) -> Result<()> {
        let next = self.folder.segments()?.last().map_or(1, |last| last.name.number.saturating_add(1));
        self.next_number = self.next_number.max(next);
        self.finish_leftovers()
    }

    /// Names the segments that a killed process left open by what they cover; those without a window are removed.
    fn finish_leftovers(&mut self) -> Result<()> {
        self.folder.remove_unfinished_sums();
        let open = self.folder.segments()?.into_iter().filter(|entry| entry.name.span.is_none());
        for entry in open {
            let budget = Budget::new(Limits::SERVICE);
            let path = self.folder.file(&entry.name);
            let mut span = Span::default();
            let Ok((bytes, _loan)) = self.folder.read(&path, &budget) else { continue };
            if segment::visit(&bytes, &budget, &mut span).is_ok() {
                let _ = finish(&self.folder, &path, entry.name, span.0);
            }
        }
        Ok(())
    }

    fn remove_old(&mut self) -> Result<()> {
        let segments = self.folder.segments()?;
        let sums = self.folder.sums();
        let of_sums: HashMap<u64, u64> = sums.iter().map(|(name, bytes)| (name.number, *bytes)).collect();
        let kept = |entry: &crate::files::folder::SegmentEntry| Kept {
            number: entry.name.number,
            end: entry.name.span.map(|(_, end)| end),
            bytes: entry.bytes + of_sums.get(&entry.name.number).unwrap_or(&0),
        };
        let kept: Vec<Kept> = segments.iter().map(kept).collect();
        // Room for the segment that is begun next, and its sum.
        let reserved = self.options.segment_bytes.min(self.options.bytes / 8) * 3 / 2;
        let names = self.folder.names();
        let others = reserved + names.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let first = retention::first_kept(&kept, others, moment::now() / NANOS, &self.options);
        for (file, _) in names.iter().filter(|(file, _)| file.segment < first) {
            self.folder.remove(&self.folder.names_path(file));
        }
        for entry in segments.iter().filter(|entry| entry.name.number < first) {
            self.folder.remove(&self.folder.file(&entry.name));
        }
        for (name, _) in sums.iter().filter(|(name, _)| name.number < first) {
            self.folder.remove(&self.folder.sum(name));
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.finish_segment();
            sys::unlock(&self.lock);
        }
    }
}

impl Open {
    /// Returns whether a window belongs into this segment: it follows the others, and all together are not too long.
    fn continues(&self, start: i64, end: i64, options: &Options) -> bool {
        let longest = i64::try_from(options.longest_segment().as_nanos()).unwrap_or(i64::MAX);
        self.span.0.is_none_or(|(first, last)| {
            // Windows of several kinds overlap; a clock that was set back is further off.
            start >= first && start < last.saturating_add(longest) && end.saturating_sub(first) <= longest
        })
    }

    fn is_gone(&self) -> bool {
        !sys::is_same_file(&self.file, &self.path).unwrap_or(false)
    }

    fn append(&mut self, kind: &str, profile: &Profile, (start, end): (i64, i64)) -> Result<u64> {
        let records = self.encoder.encode(kind, profile)?;
        let bytes = if self.length == 0 { [segment::HEADER, &*records].concat() } else { records };
        self.write(&bytes).map_err(|error| Error::of_file(&self.path, &error))?;
        self.length += bytes.len() as u64;
        self.span.add(start, end);
        Ok(bytes.len() as u64)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        sys::check_length(self.length + bytes.len() as u64)?;
        sys::write(&mut self.file, bytes)
    }

    /// Cuts off what was not acknowledged, gives the file its final name, and writes its sum if all windows that were encoded
    /// are in it.
    fn finish(self, folder: &HistoryFolder, has_sum: bool) {
        let is_cut = self.file.metadata().is_ok_and(|found| found.len() == self.length)
            || self.file.set_len(self.length).is_ok();
        // A file that cannot be cut keeps a torn end, which readers leave out.
        let _ = is_cut;
        if let Some(name) = finish(folder, &self.path, self.name, self.span.0)
            && has_sum
        {
            // Without a sum, readers take the segment.
            let _ = sum::write(folder, &name, self.length, self.encoder);
        }
    }
}

/// Renames a segment so that its name says what it covers, in whole seconds, and returns the new name; removes one without
/// windows.
fn finish(
    folder: &HistoryFolder,
    path: &Path,
    name: SegmentName,
    span: Option<(i64, i64)>,
) -> Option<SegmentName> {
    match span {
        Some((from, to)) => {
            let last = to.saturating_sub(1);
            let seconds = (from.div_euclid(NANOS).max(0), last.div_euclid(NANOS).saturating_add(1).max(0));
            let name = SegmentName { span: Some(seconds), ..name };
            // If it fails, readers open the file to see what it covers.
            if fs::rename(path, folder.file(&name)).is_ok() {
                return Some(name);
            }
        }
        None => folder.remove(path),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Query, Reader};
    use flamelet_profile::ProfileBuilder;

    fn window(number: i64) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let program = builder.file_mapping(0x1000..0x9000, 0, "/bin/a", "ab");
        for sample in 0..4 {
            let frames = [builder.address(Some(program), 0x1000 + (number * sample) as u64)];
            let stack = builder.stack(&frames);
            builder.sample(stack, flamelet_profile::LabelSetId::EMPTY, &[number + 1]);
        }
        let header = builder.header_mut();
        (header.time_nanos, header.duration_nanos) = (number * NANOS, NANOS);
        builder.finish()
    }

    fn total(folder: &Path, number: i64) -> Option<i64> {
        let query = Query::new("cpu", number * NANOS, (number + 1) * NANOS);
        let read =
            Reader::open(folder).and_then(|reader| reader.profile(&query, &Budget::new(Limits::SERVICE)));
        read.expect("read").0.map(|profile| profile.total(0))
    }

    /// Writes windows to a disk with this much room; when it is full, it is freed after two further windows.
    fn write_with(room: usize) -> (tempfile::TempDir, Vec<i64>) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
        sys::faults::ROOM.set(room);
        let (mut acknowledged, mut failed) = (Vec::new(), 0);
        for number in 0..8 {
            if failed == 3 {
                sys::faults::ROOM.set(usize::MAX);
            }
            match writer.append("cpu", &window(number)) {
                Ok(()) => acknowledged.push(number),
                Err(error) => {
                    assert!(error.to_string().contains("history-"), "{error}");
                    failed += 1;
                }
            }
        }
        sys::faults::ROOM.set(usize::MAX);
        assert_eq!(writer.status().failed, failed);
        (folder, acknowledged)
    }

    #[test]
    fn a_child_that_has_not_executed_its_program_yet_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Writer::open(folder.path(), Options::default()).expect("opened");
        let _of_the_child = writer.lock.try_clone().expect("copied");
        drop(writer);
        Writer::open(folder.path(), Options::default()).expect("opened again");
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_costs_only_what_was_not_acknowledged() {
        let (_, all) = write_with(usize::MAX);
        assert_eq!(all.len(), 8);
        let mut has_failed = 0;
        for room in 0.. {
            let (folder, acknowledged) = write_with(room);
            for number in 0..8 {
                let expected = acknowledged.contains(&number).then_some(4 * (number + 1));
                assert_eq!(total(folder.path(), number), expected, "window {number} with {room} bytes");
            }
            if acknowledged.len() == 8 {
                break;
            }
            has_failed += 1;
        }
        assert!(has_failed > 200, "{has_failed}");
    }

    /// Gives every place a name that says where it is.
    fn named(mut unnamed: Profile) -> Profile {
        unnamed.relabel_locations(|profile, id| {
            let name = format!("at_{:x}", profile.location(id).address);
            Some(vec![flamelet_profile::NamedLine { name, ..Default::default() }])
        });
        unnamed
    }

    /// Keeps names on a disk with this much room, which is freed after the first failure, and returns how often it failed.
    fn keep_names_with(room: usize) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
        let mut failed = 0;
        for number in 1..3 {
            writer.append("cpu", &window(number)).expect("written");
            sys::faults::ROOM.set(if failed == 0 { room / number as usize } else { usize::MAX });
            while let Some(unnamed) = writer.take_unnamed() {
                failed += usize::from(writer.keep_names(&named(unnamed)).is_err());
                assert!(failed <= 2, "with {room} bytes");
                if failed > 0 {
                    sys::faults::ROOM.set(usize::MAX);
                }
            }
            sys::faults::ROOM.set(usize::MAX);
        }
        let budget = Budget::new(Limits::SERVICE);
        let reader = Reader::open(folder.path()).expect("opened");
        let (profile, _) = reader.profile(&Query::new("cpu", i64::MIN, i64::MAX), &budget).expect("read");
        let mut profile = profile.expect("there");
        reader.add_names(&mut profile, &budget).expect("read");
        let is_named = |location| !profile.lines_of(location).is_empty();
        assert!(profile.locations().iter().all(is_named), "with {room} bytes");
        failed
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_costs_no_names() {
        let mut has_failed = 0;
        for room in 0.. {
            if keep_names_with(room) == 0 {
                break;
            }
            has_failed += 1;
        }
        assert!(has_failed > 50, "{has_failed}");
    }
}
