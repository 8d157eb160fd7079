//! What holds memory: stacks with what is in use, was allocated, or was held at the peak.

use flamelet_profile::{HeapView, Result};
use serde::Serialize;

use super::stacks::{MemoryStacks, period};
use crate::report::Report;

/// A stack that holds memory.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// The bytes.
    pub bytes: i64,
    /// One standard deviation of the bytes.
    pub error: i64,
    /// The objects.
    pub objects: i64,
    /// The functions of interest (no go-betweens), innermost first.
    pub own: Vec<String>,
    /// All functions, innermost first.
    pub stack: Vec<String>,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Holders {
    /// What is counted: `inuse_space`, `alloc_space`, …
    pub sample_type: &'static str,
    /// The total number of bytes.
    pub total_bytes: i64,
    /// The total number of objects.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was recorded.
    pub period: i64,
    /// The stacks, most bytes first.
    pub rows: Vec<Holder>,
}

/// Returns the stacks of a view of one moment: [`HeapView::InUse`], [`HeapView::Allocated`] or [`HeapView::Peak`].
pub fn holders(report: &Report, view: HeapView) -> Result<Holders> {
    let stacks = MemoryStacks::of(report, view)?;
    Ok(Holders::of(report, view, &stacks))
}

impl Holders {
    pub(super) fn of(report: &Report, view: HeapView, stacks: &MemoryStacks) -> Self {
        let (period, total) = (period(report.profile()), stacks.total());
        let rows = stacks.rows.iter().map(|(stack, counts)| Holder {
            bytes: counts.bytes,
            error: counts.error(period),
            objects: counts.objects,
            own: stacks.own(stack),
            stack: stacks.named(stack),
        });
        Self {
            sample_type: view.sample_types()[1],
            total_bytes: total.bytes,
            total_objects: total.objects,
            period,
            rows: rows.collect(),
        }
    }
}
