//! From when to when a history reaches.

use flamelet_profile::Result;

use crate::segment::WindowVisitor;
use crate::segment::decode::{SegmentTables, Window};
use crate::segment::kind::Kind;

/// From when to when windows reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Option<(i64, i64)>);

impl Span {
    /// Adds a window. Also one without a length begins before it ends.
    pub(crate) fn add(&mut self, from: i64, to: i64) {
        let to = to.max(from.saturating_add(1));
        let (first, last) = self.0.unwrap_or((from, to));
        self.0 = Some((first.min(from), last.max(to)));
    }
}

impl WindowVisitor for Span {
    fn needs_rows(&self, _: &Kind, _: &Window) -> bool {
        false
    }

    fn window(&mut self, _: &SegmentTables, window: &Window) -> Result<()> {
        self.add(window.start, window.end());
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}
