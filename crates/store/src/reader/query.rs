//! What to read of a history.

use crate::files::folder::SegmentName;
use crate::segment::decode::{SegmentTables, Window};
use crate::segment::kind::Kind;

const NANOS: i64 = 1_000_000_000;

/// Decides by its text labels whether a sample is wanted.
pub type KeepLabels<'a> = dyn Fn(&[(&str, &str)]) -> bool + 'a;

/// What to read.
pub struct Query<'a> {
    /// The name of the [`Kind`] of windows, such as `cpu`.
    pub kind: &'a str,
    /// From when, in nanoseconds since 1970. A window belongs to a range if its middle does, so ranges that follow
    /// each other share no window.
    pub from: i64,
    /// Until when.
    pub to: i64,
    /// Which samples to keep; all if it is `None`.
    pub keep: Option<&'a KeepLabels<'a>>,
}

impl<'a> Query<'a> {
    /// Asks for all samples of a kind between two moments, in nanoseconds since 1970.
    pub fn new(kind: &'a str, from: i64, to: i64) -> Self {
        Self { kind, from, to, keep: None }
    }

    pub(crate) fn wants(&self, kind: &Kind, window: &Window) -> bool {
        kind.name == self.kind && (self.from..self.to).contains(&window.middle())
    }

    pub(crate) fn keeps(&self, tables: &SegmentTables, labels: u32) -> bool {
        self.keep.is_none_or(|keep| keep(&tables.label_texts(labels)))
    }

    /// Returns whether a segment may have windows of the range.
    pub(crate) fn may_be_in(&self, name: &SegmentName) -> bool {
        name.span.is_none_or(|(from, to)| {
            from.saturating_mul(NANOS) < self.to && to.saturating_mul(NANOS) > self.from
        })
    }

    /// Returns whether all windows of a segment are in the range.
    pub(crate) fn covers(&self, name: &SegmentName) -> bool {
        name.span.is_some_and(|(from, to)| {
            self.from <= from.saturating_mul(NANOS) && to.saturating_mul(NANOS) <= self.to
        })
    }
}
