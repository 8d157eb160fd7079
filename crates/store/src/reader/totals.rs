//! The totals of each window by labels, for values over time.

use flamelet_profile::{Budget, Result};

use crate::reader::query::Query;
use crate::segment::WindowVisitor;
use crate::segment::decode::{SegmentTables, Window};

/// Takes the middle of a window in nanoseconds since 1970, the text labels of samples, and the sums of their values.
pub type EachTotal<'a> = dyn FnMut(i64, &[(&str, &str)], &[i64]) + 'a;

pub(crate) struct Totals<'q> {
    pub(crate) query: &'q Query<'q>,
    pub(crate) budget: &'q Budget,
    pub(crate) each: &'q mut EachTotal<'q>,
}

impl WindowVisitor for Totals<'_> {
    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        let Some(kind) = tables.kind(window.kind).filter(|kind| self.query.wants(kind, window)) else {
            return Ok(());
        };
        let width = kind.values.len();
        self.budget.work(window.rows.len() * (width + 1))?;
        // By the number of the label set, which the rows of a window share.
        let mut sums: Vec<(u32, Vec<i64>)> = Vec::new();
        for (at, &row) in window.rows.iter().enumerate() {
            let Some(&(_, labels)) = tables.rows.get(row) else { continue };
            sums.push((labels, window.columns.iter().map(|column| column[at]).collect()));
        }
        sums.sort_by_key(|(labels, _)| *labels);
        sums.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                let values = first.1.iter_mut().zip(&later.1);
                values.for_each(|(sum, value)| *sum = sum.saturating_add(*value));
            }
            is_same
        });
        for (labels, values) in sums {
            let texts = tables.label_texts(labels);
            if self.query.keep.is_none_or(|keep| keep(&texts)) {
                (self.each)(window.middle(), &texts, &values);
            }
        }
        Ok(())
    }

    fn segment_end(&mut self, _: &SegmentTables) -> Result<()> {
        Ok(())
    }
}
