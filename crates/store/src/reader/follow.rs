//! Reading a history window by window in the order of writing, as a push to another system does.
//!
//! A [`Position`] counts windows and does not depend on clocks, so each window is read once, however the clock was set.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile, Result};

use crate::files::folder::{MAX_FILE, SegmentEntry};
use crate::files::sys;
use crate::reader::Reader;
use crate::reader::merge::Merge;
use crate::reader::query::Query;
use crate::segment::decode::{Added, SegmentTables, Window};
use crate::segment::record::{Record, Records};
use crate::segment::{HEADER, WindowVisitor};

/// How much of a segment is read at once, unless a record is longer.
const CHUNK: u64 = 256 << 10;
const NANOS: i64 = 1_000_000_000;

/// A position in a history: after a number of windows of a segment. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the segment.
    pub segment: u64,
    /// How many of its windows lie before this place.
    pub windows: u64,
}

/// A window after a [`Position`].
#[derive(Debug)]
pub struct NextWindow {
    /// The position after it.
    pub position: Position,
    /// The name of its kind, such as `cpu`.
    pub kind: String,
    /// The window, without names.
    pub profile: Profile,
    /// Whether windows before it were removed, or could not be read, since the position was taken.
    pub has_gap: bool,
}

/// Reads windows one after another. It keeps the segment that it reads open, with the tables of the part that it has
/// read, so that each window is decoded once.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    place: Option<ReadPosition>,
}

/// How far a segment was read.
#[derive(Debug)]
struct ReadPosition {
    segment: u64,
    file: File,
    /// Behind the last record that was read.
    offset: u64,
    /// How many windows were read.
    windows: u64,
    tables: SegmentTables,
    /// What the tables take, and the work of reading all of the segment.
    budget: Budget,
}

impl Follower {
    /// Follows the history of `reader`.
    pub fn new(reader: Reader) -> Self {
        Self { reader, place: None }
    }

    /// Returns the reader.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the first window after `after`, or `None` if there is none yet.
    pub fn next_window(&mut self, after: Position, budget: &Budget) -> Result<Option<NextWindow>> {
        let segments = self.reader.segments()?;
        let newest = segments.last().map_or(0, |entry| entry.name.number);
        // Numbers begin again when all files were removed.
        let after = if newest < after.segment { Position::default() } else { after };
        let is_known = |number: u64| segments.iter().any(|entry| entry.name.number == number);
        let mut has_gap = after.segment != 0 && !is_known(after.segment);
        for entry in segments.iter().filter(|entry| entry.name.number >= after.segment) {
            let segment = entry.name.number;
            let skip = if segment == after.segment { after.windows } else { 0 };
            match self.next_in(entry, skip, budget) {
                Ok(Some(found)) => {
                    let windows = self.place.as_ref().map_or(0, |place| place.windows);
                    let (kind, profile) = found;
                    let position = Position { segment, windows };
                    return Ok(Some(NextWindow { position, kind, profile, has_gap }));
                }
                Ok(None) => {}
                Err(_) => {
                    self.place = None;
                    budget.check()?;
                    has_gap = true;
                }
            }
        }
        Ok(None)
    }

    /// Returns the first window of a segment after this many others, with its kind.
    fn next_in(
        &mut self,
        entry: &SegmentEntry,
        skip: u64,
        budget: &Budget,
    ) -> Result<Option<(String, Profile)>> {
        if !self.place.as_ref().is_some_and(|place| place.is_at(&self.reader, entry, skip)) {
            self.place = ReadPosition::open(&self.reader, entry)?;
        }
        let Some(place) = &mut self.place else { return Ok(None) };
        loop {
            let Some(window) = place.next(skip, budget)? else { return Ok(None) };
            let Some(kind) = place.tables.kind(window.kind) else { continue };
            let query = Query::new("", i64::MIN, i64::MAX);
            let mut merge = Merge::new(&query, budget);
            merge.add(kind, &place.tables, &window)?;
            merge.segment_end(&place.tables)?;
            return Ok(merge.finish().map(|profile| (kind.name.clone(), profile)));
        }
    }
}

impl ReadPosition {
    /// Opens a segment at its beginning; `None` if it has no window yet, or was removed meanwhile.
    fn open(reader: &Reader, entry: &SegmentEntry) -> Result<Option<Self>> {
        let Some(mut file) = reader.open_segment(entry)? else { return Ok(None) };
        let mut header = [0; HEADER.len()];
        if file.metadata()?.len() < HEADER.len() as u64 {
            return Ok(None);
        }
        file.read_exact(&mut header)?;
        if header != *HEADER {
            let message = "is not a history that this version of flamelet reads";
            return Err(Error::new(ErrorKind::WrongFormat, message));
        }
        Ok(Some(Self {
            segment: entry.name.number,
            file,
            offset: HEADER.len() as u64,
            windows: 0,
            tables: SegmentTables::default(),
            budget: Budget::new(Limits::SERVICE),
        }))
    }

    /// Returns whether this is the position after this many windows of a segment whose file is still the same.
    fn is_at(&self, reader: &Reader, entry: &SegmentEntry, windows: u64) -> bool {
        (self.segment, self.windows) == (entry.name.number, windows)
            && reader.is_segment(&self.file, entry)
            && self.file.metadata().is_ok_and(|found| found.len() >= self.offset)
    }

    /// Reads on, to the first window after `skip` others.
    fn next(&mut self, skip: u64, budget: &Budget) -> Result<Option<Window>> {
        let mut most = CHUNK;
        loop {
            let (bytes, is_all, _loan) = self.chunk(most, budget)?;
            let (start, end) = (self.offset, self.offset + bytes.len() as u64);
            let mut records = Records::new(&bytes, budget);
            while let Some(Record { tag, body }) = records.next_tagged(|_| true)? {
                let added = self.tables.add(tag.as_ref(), body.unwrap_or_default(), &self.budget);
                self.offset = end - records.rest() as u64;
                let Added::Window(window) = added? else { continue };
                self.windows += 1;
                if self.windows > skip {
                    return Ok(Some(window));
                }
            }
            if is_all {
                return Ok(None);
            }
            // A record that is longer than the chunk, or damage.
            most = if self.offset == start { MAX_FILE } else { CHUNK };
        }
    }

    /// Returns the bytes from here on, and whether they are all that there are.
    fn chunk(&mut self, most: u64, budget: &Budget) -> Result<(Vec<u8>, bool, Loan)> {
        let length = self.file.metadata()?.len().saturating_sub(self.offset);
        let taken = length.min(most);
        let loan = budget.lend(usize::try_from(taken).unwrap_or(usize::MAX))?;
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(self.offset))?;
        (&self.file).take(taken).read_to_end(&mut bytes)?;
        Ok((bytes, taken == length, loan))
    }
}

impl Reader {
    /// Opens the file of a segment, also if it was renamed meanwhile; `None` if it was removed.
    fn open_segment(&self, entry: &SegmentEntry) -> Result<Option<File>> {
        if let Some(file) = self.open_file(entry)? {
            return Ok(Some(file));
        }
        let renamed = self.segments()?.into_iter().find(|other| other.name.number == entry.name.number);
        renamed.map_or(Ok(None), |entry| self.open_file(&entry))
    }

    /// Returns whether an open file is that of a segment; it may have been renamed meanwhile.
    fn is_segment(&self, file: &File, entry: &SegmentEntry) -> bool {
        let is_named = |entry: &SegmentEntry| sys::is_same_file(file, &self.path_of(entry)).unwrap_or(false);
        let is_renamed = || {
            let segments = self.segments().unwrap_or_default();
            segments.iter().any(|other| other.name.number == entry.name.number && is_named(other))
        };
        is_named(entry) || is_renamed()
    }

    /// Returns the position before the first window that ends after `time`, in nanoseconds since 1970; after the last one if
    /// there is none.
    pub fn position_at(&self, time: i64, budget: &Budget) -> Result<Position> {
        let may_reach = |entry: &&SegmentEntry| {
            entry.name.span.is_none_or(|(_, end)| end.saturating_add(1).saturating_mul(NANOS) > time)
        };
        for entry in self.segments()?.iter().filter(may_reach) {
            let mut until = Until { time, before: 0, is_found: false };
            // What cannot be read is passed over later, too.
            if self.visit_one(entry, budget, &mut until).is_err() {
                budget.check()?;
            }
            if until.is_found {
                return Ok(Position { segment: entry.name.number, windows: until.before });
            }
        }
        self.last_position(budget)
    }

    /// Returns the position after the last window.
    pub fn last_position(&self, budget: &Budget) -> Result<Position> {
        let segments = self.segments()?;
        let Some(newest) = segments.last() else { return Ok(Position::default()) };
        let mut count = ReadCounter(0);
        self.visit_one(newest, budget, &mut count)?;
        Ok(Position { segment: newest.name.number, windows: count.0 })
    }

    /// Returns a number that changes when windows are written: reading can wait as long as it does not.
    pub fn stamp(&self) -> Result<(u64, u64)> {
        let segments = self.segments()?;
        Ok(segments.last().map_or((0, 0), |entry| (entry.name.number, entry.bytes)))
    }
}

/// Counts the windows before the first one that ends after a moment.
struct Until {
    time: i64,
    before: u64,
    is_found: bool,
}

impl WindowVisitor for Until {
    fn window(&mut self, _: &SegmentTables, window: &Window) -> Result<()> {
        self.is_found = window.end() > self.time;
        self.before += u64::from(!self.is_found);
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_found
    }
}

struct ReadCounter(u64);

impl WindowVisitor for ReadCounter {
    fn window(&mut self, _: &SegmentTables, _: &Window) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}
