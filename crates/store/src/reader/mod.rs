//! Profiles of any range of time.

pub(crate) mod cursor;
pub(crate) mod follow;
pub(crate) mod merge;
pub(crate) mod moments;
pub(crate) mod query;
pub(crate) mod totals;

use std::fs::File;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Error, ErrorKind, Profile, Result};

use crate::files::folder::{HistoryFolder, SegmentEntry};
use crate::names;
use crate::reader::merge::{Merge, MergeOfSums};
use crate::reader::query::Query;
use crate::reader::totals::{EachTotal, Totals};
use crate::segment::decode::{SegmentTables, Window};
use crate::segment::kind::{HEAP, Kind};
use crate::segment::span::Span;
use crate::segment::{self, WindowVisitor, sum};

const NANOS: i64 = 1_000_000_000;

/// What was left out of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Records that are damaged, or need such a one.
    pub records: usize,
    /// Segments that cannot be read, and why.
    pub segments: Vec<String>,
}

impl Skipped {
    /// Returns lines for the user; none if nothing was left out.
    pub fn notes(&self) -> Vec<String> {
        let damaged = (self.records > 0)
            .then(|| format!("{} records of the history are damaged and were left out", self.records));
        damaged.into_iter().chain(self.segments.iter().cloned()).collect()
    }
}

/// Reads a history. Any number of readers may read while it is written.
#[derive(Clone, Debug)]
pub struct Reader {
    folder: HistoryFolder,
}

impl Reader {
    /// Opens the history in a folder.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { folder: HistoryFolder::open(path)? })
    }

    /// Returns one profile of all windows of the range, without names, and what had to be left out. `None` if there
    /// is no such window.
    pub fn profile(&self, query: &Query<'_>, budget: &Budget) -> Result<(Option<Profile>, Skipped)> {
        let mut merge = Merge::new(query, budget);
        let skipped =
            self.each_in(query, budget, |entry| self.merge_one(query, entry, budget, &mut merge))?;
        let profile = merge.finish();
        budget.check()?;
        Ok((profile, skipped))
    }

    /// Returns from when to when there are windows, in nanoseconds since 1970, as the names of the segments say; the
    /// segment that is being written counts with the windows it has.
    pub fn span(&self, budget: &Budget) -> Result<Option<(i64, i64)>> {
        let mut span = Span::default();
        for entry in self.folder.segments()? {
            match entry.name.span {
                Some((from, to)) => span.add(from.saturating_mul(NANOS), to.saturating_mul(NANOS)),
                None => drop(self.visit_one(&entry, budget, &mut span)?),
            }
        }
        Ok(span.0)
    }

    /// Returns the middle of the last window of the range, in nanoseconds since 1970.
    pub(crate) fn last(&self, query: &Query<'_>, budget: &Budget) -> Result<Option<i64>> {
        let mut last = Last { query, found: None };
        for entry in self.folder.segments()?.iter().rev().filter(|entry| query.may_be_in(&entry.name)) {
            // A segment that cannot be read has none.
            if self.visit_one(entry, budget, &mut last).is_err() {
                budget.check()?;
            }
            if last.found.is_some() {
                break;
            }
        }
        Ok(last.found)
    }

    /// Returns the kinds of windows in the range.
    pub fn kinds(&self, query: &Query<'_>, budget: &Budget) -> Result<Vec<Kind>> {
        let mut kinds = Kinds { query, found: Vec::new() };
        self.visit(query, budget, &mut kinds)?;
        Ok(kinds.found)
    }

    /// Calls `each` for every window of the range and every set of labels in it, in the order of writing.
    pub fn totals<'a>(
        &self,
        query: &'a Query<'a>,
        budget: &'a Budget,
        each: &'a mut EachTotal<'a>,
    ) -> Result<Skipped> {
        self.visit(query, budget, &mut Totals { query, budget, each })
    }

    /// Fills in the kept names of the code in `profile` that has none, and returns how many places have got some.
    pub fn add_names(&self, profile: &mut Profile, budget: &Budget) -> Result<usize> {
        names::apply(&self.folder, profile, budget)
    }

    /// Shows `visitor` the segments that may have windows of the range.
    pub(crate) fn visit(
        &self,
        query: &Query<'_>,
        budget: &Budget,
        visitor: &mut impl WindowVisitor,
    ) -> Result<Skipped> {
        self.each_in(query, budget, |entry| self.visit_one(entry, budget, visitor))
    }

    /// Calls `read` with the segments that may have windows of the range; it returns how many records were damaged.
    fn each_in(
        &self,
        query: &Query<'_>,
        budget: &Budget,
        mut read: impl FnMut(&SegmentEntry) -> Result<usize>,
    ) -> Result<Skipped> {
        let mut skipped = Skipped::default();
        for entry in self.folder.segments()?.iter().filter(|entry| query.may_be_in(&entry.name)) {
            match read(entry) {
                Ok(damaged) => skipped.records += damaged,
                Err(error) => {
                    budget.check()?;
                    skipped.segments.push(error.to_string());
                }
            }
        }
        Ok(skipped)
    }

    /// Adds the windows of a segment in the range, from its sum if the range has all of them.
    fn merge_one(
        &self,
        query: &Query<'_>,
        entry: &SegmentEntry,
        budget: &Budget,
        merge: &mut Merge<'_>,
    ) -> Result<usize> {
        if query.kind != HEAP
            && query.covers(&entry.name)
            && let Some(damaged) = sum::visit(&self.folder, &entry.name, budget, &mut MergeOfSums(merge))?
        {
            return Ok(damaged);
        }
        self.visit_one(entry, budget, merge)
    }

    pub(crate) fn segments(&self) -> Result<Vec<SegmentEntry>> {
        self.folder.segments()
    }

    pub(crate) fn path_of(&self, entry: &SegmentEntry) -> PathBuf {
        self.folder.file(&entry.name)
    }

    /// Opens the file of a segment under this name; `None` if there is none.
    pub(crate) fn open_file(&self, entry: &SegmentEntry) -> Result<Option<File>> {
        self.folder.open_file(&self.path_of(entry))
    }

    pub(crate) fn visit_one(
        &self,
        entry: &SegmentEntry,
        budget: &Budget,
        visitor: &mut impl WindowVisitor,
    ) -> Result<usize> {
        let mut path = self.folder.file(&entry.name);
        let mut read = self.folder.read(&path, budget);
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            // Finished and so renamed meanwhile, or removed for its age.
            let renamed =
                self.folder.segments()?.into_iter().find(|other| other.name.number == entry.name.number);
            let Some(renamed) = renamed else { return Ok(0) };
            path = self.folder.file(&renamed.name);
            read = self.folder.read(&path, budget);
        }
        let (bytes, _loan) = match read {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            read => read?,
        };
        segment::visit(&bytes, budget, visitor)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

struct Last<'q> {
    query: &'q Query<'q>,
    found: Option<i64>,
}

impl WindowVisitor for Last<'_> {
    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        if tables.kind(window.kind).is_some_and(|kind| self.query.wants(kind, window)) {
            self.found = self.found.max(Some(window.middle()));
        }
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}

struct Kinds<'q> {
    query: &'q Query<'q>,
    found: Vec<Kind>,
}

impl WindowVisitor for Kinds<'_> {
    fn needs_rows(&self, _: &Kind, _: &Window) -> bool {
        false
    }

    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        let is_in = (self.query.from..self.query.to).contains(&window.middle());
        if let Some(kind) = tables.kind(window.kind).filter(|kind| is_in && !self.found.contains(kind)) {
            self.found.push(kind.clone());
        }
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}
