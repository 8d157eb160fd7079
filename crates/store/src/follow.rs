//! Reading a history window by window in the order of writing, as a push to another system does.
//!
//! A [`Position`] counts windows and does not depend on clocks, so each window is read once, however the clock was set.

use flamelet_profile::{Budget, Profile, Result};

use crate::decode::{Tables, Window};
use crate::merge::Merge;
use crate::query::Query;
use crate::reader::Reader;
use crate::segment::Visit;

/// A place in a history: behind so many windows of a segment. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the segment.
    pub segment: u64,
    /// How many of its windows lie before this place.
    pub windows: u64,
}

/// A window behind a [`Position`].
#[derive(Debug)]
pub struct NextWindow {
    /// The place behind it.
    pub position: Position,
    /// The name of its kind, such as `cpu`.
    pub kind: String,
    /// The window, without names.
    pub profile: Profile,
    /// Whether windows before it were removed, or could not be read, since the position was taken.
    pub has_gap: bool,
}

impl Reader {
    /// Returns the first window behind `after`, or `None` if there is none yet.
    pub fn next_window(&self, after: Position, budget: &Budget) -> Result<Option<NextWindow>> {
        let segments = self.segments()?;
        let newest = segments.last().map_or(0, |entry| entry.name.number);
        // Numbers begin again when all files were removed.
        let after = if newest < after.segment { Position::default() } else { after };
        let is_known = |number: u64| segments.iter().any(|entry| entry.name.number == number);
        let mut has_gap = after.segment != 0 && !is_known(after.segment);
        for entry in segments.iter().filter(|entry| entry.name.number >= after.segment) {
            let segment = entry.name.number;
            let skip = if segment == after.segment { after.windows } else { 0 };
            let query = Query::new("", i64::MIN, i64::MAX);
            let mut follow = Follow { merge: Merge::new(&query, budget), skip, seen: 0, found: None };
            if self.visit_one(entry, budget, &mut follow).is_err() {
                budget.check()?;
                has_gap = true;
                continue;
            }
            let position = Position { segment, windows: follow.seen };
            if let Some((kind, profile)) = follow.found.zip(follow.merge.finish()) {
                return Ok(Some(NextWindow { position, kind, profile, has_gap }));
            }
        }
        Ok(None)
    }

    /// Returns the place behind the last window.
    pub fn last_position(&self, budget: &Budget) -> Result<Position> {
        let segments = self.segments()?;
        let Some(newest) = segments.last() else { return Ok(Position::default()) };
        let mut count = Count(0);
        self.visit_one(newest, budget, &mut count)?;
        Ok(Position { segment: newest.name.number, windows: count.0 })
    }

    /// Returns a number that changes when windows are written: reading can wait as long as it does not.
    pub fn stamp(&self) -> Result<(u64, u64)> {
        let segments = self.segments()?;
        Ok(segments.last().map_or((0, 0), |entry| (entry.name.number, entry.bytes)))
    }
}

/// Takes one window and leaves the others.
struct Follow<'q> {
    merge: Merge<'q>,
    skip: u64,
    seen: u64,
    /// The kind of the window that was taken.
    found: Option<String>,
}

impl Visit for Follow<'_> {
    fn window(&mut self, tables: &Tables, window: &Window) -> Result<()> {
        self.seen += 1;
        let Some(kind) = tables.kind(window.kind).filter(|_| self.seen > self.skip) else { return Ok(()) };
        self.found = Some(kind.name.clone());
        self.merge.add(kind, tables, window)
    }

    fn segment_end(&mut self, tables: &Tables) -> Result<()> {
        self.merge.segment_end(tables)
    }

    fn is_done(&self) -> bool {
        self.found.is_some()
    }
}

struct Count(u64);

impl Visit for Count {
    fn window(&mut self, _: &Tables, _: &Window) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn segment_end(&mut self, _: &Tables) -> Result<()> {
        Ok(())
    }
}
