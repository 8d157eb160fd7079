//! Windows that each show the heap at a moment, which cannot be added up.

use flamelet_profile::{Budget, HeapSizes, Limits, Profile, Result};

use crate::reader::query::Query;
use crate::reader::{Reader, Skipped};
use crate::segment::WindowVisitor;
use crate::segment::decode::{SegmentTables, Window};
use crate::segment::kind::HEAP;

impl Reader {
    /// Returns what a range of any kind shows, without names, and what had to be left out: the sum of its windows; of the
    /// heap its last moment, with the sizes that the heap had in the range. `None` if there is no window.
    pub fn range(&self, query: &Query<'_>, budget: &Budget) -> Result<(Option<Profile>, Skipped)> {
        match query.kind {
            HEAP => self.last_moment(query, budget),
            _ => self.profile(query, budget),
        }
    }

    fn last_moment(&self, query: &Query<'_>, budget: &Budget) -> Result<(Option<Profile>, Skipped)> {
        let mut last = Query { ..*query };
        if let Some(moment) = self.last(query, budget)? {
            (last.from, last.to) = (moment, moment.saturating_add(1));
        }
        let sizes = self.heap_sizes(query, &Budget::new(Limits::of_memory(budget.room())));
        let (mut profile, skipped) = self.profile(&last, budget)?;
        if let Some(profile) = &mut profile {
            profile.set_heap_sizes(sizes);
        }
        Ok((profile, skipped))
    }

    /// Returns how large the heap was, from the newest moment back as far as the budget goes: a picture is no reason to
    /// fail.
    fn heap_sizes(&self, query: &Query<'_>, budget: &Budget) -> HeapSizes {
        let mut moments = Moments { query, budget, found: Vec::new() };
        for entry in self.segments().unwrap_or_default().iter().rev() {
            // What cannot be read has none.
            let is_read = query.may_be_in(&entry.name) && self.visit_one(entry, budget, &mut moments).is_ok();
            if !is_read && budget.check().is_err() {
                break;
            }
        }
        let mut found = moments.found;
        found.sort_unstable();
        let start = found.first().map_or(0, |(time, _)| *time);
        let mut sizes = HeapSizes::default();
        found.iter().for_each(|(time, bytes)| sizes.push(time.abs_diff(start), bytes.unsigned_abs()));
        sizes
    }
}

/// The bytes in use at each moment.
struct Moments<'q> {
    query: &'q Query<'q>,
    budget: &'q Budget,
    found: Vec<(i64, i64)>,
}

impl WindowVisitor for Moments<'_> {
    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        let kind = tables.kind(window.kind).filter(|kind| self.query.wants(kind, window));
        let column = kind.and_then(|kind| kind.values.iter().position(|(name, _)| name == "inuse_space"));
        let Some(values) = column.and_then(|column| window.columns.get(column)) else { return Ok(()) };
        self.budget.work(values.len())?;
        let wanted = window.rows.iter().zip(values).filter(|(row, _)| {
            tables.rows.get(**row).is_some_and(|&(_, labels)| self.query.keeps(tables, labels))
        });
        let bytes = wanted.fold(0i64, |sum, (_, value)| sum.saturating_add(*value)).max(0);
        self.budget.push(&mut self.found, (window.middle(), bytes));
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}
