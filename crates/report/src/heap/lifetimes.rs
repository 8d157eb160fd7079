//! How long memory lives, and which allocations are only temporary.

use flamelet_profile::{Error, ErrorKind, HeapView, Profile, Result};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::holders::Holders;
use super::lifetime_classes::{LIFETIMES, TEMPORARY, lifetimes_of_sets};
use super::stacks::{MemoryStacks, ObjectsAndBytes, period, type_index};
use crate::report::Report;
use crate::stacks::NodeId;

/// Memory with a similar lifetime.
#[derive(Clone, Debug, Serialize)]
pub struct LifetimeClass {
    /// `temporary`, `<1ms`, …
    pub lifetime: &'static str,
    /// The bytes.
    pub bytes: i64,
    /// The objects.
    pub objects: i64,
}

/// A stack, and how long its memory lives.
#[derive(Clone, Debug, Serialize)]
pub struct LifetimeRow {
    /// The bytes that it allocated and that have been freed.
    pub bytes: i64,
    /// The objects.
    pub objects: i64,
    /// The class with most of its bytes.
    pub mostly: &'static str,
    /// The bytes in each class, in the order of [`Lifetimes::classes`].
    pub by_class: Vec<i64>,
    /// The functions of interest (no go-betweens), innermost first.
    pub own: Vec<String>,
    /// All functions, innermost first.
    pub stack: Vec<String>,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Lifetimes {
    /// The total number of bytes.
    pub total_bytes: i64,
    /// The total number of objects.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was recorded.
    pub period: i64,
    /// All classes, shortest first.
    pub classes: Vec<LifetimeClass>,
    /// The stacks that allocated, most bytes first.
    pub rows: Vec<LifetimeRow>,
}

/// Returns how long freed memory had lived.
pub fn lifetimes(report: &Report) -> Result<Lifetimes> {
    let lifetime_of = known_lifetimes(report.profile())?;
    let mut by_class: FxHashMap<Vec<NodeId>, Vec<i64>> = FxHashMap::default();
    let mut classes = LIFETIMES.map(|lifetime| LifetimeClass { lifetime, bytes: 0, objects: 0 });
    let stacks = MemoryStacks::noting(report, HeapView::Lifetime, |stack, labels, counts| {
        if let Some(class) = lifetime_of[labels.index()] {
            classes[class].bytes += counts.bytes;
            classes[class].objects += counts.objects;
            by_class.entry(stack.to_vec()).or_insert_with(|| vec![0; LIFETIMES.len()])[class] += counts.bytes;
        }
        true
    })?;
    let row = |(stack, counts): &(Vec<NodeId>, ObjectsAndBytes)| {
        let by_class = by_class.get(stack).cloned().unwrap_or_else(|| vec![0; LIFETIMES.len()]);
        let most = by_class.iter().enumerate().rev().max_by_key(|&(_, bytes)| bytes);
        LifetimeRow {
            bytes: counts.bytes,
            objects: counts.objects,
            mostly: LIFETIMES[most.map_or(0, |(class, _)| class)],
            by_class,
            own: stacks.own(stack),
            stack: stacks.named(stack),
        }
    };
    let total = stacks.total();
    Ok(Lifetimes {
        total_bytes: total.bytes,
        total_objects: total.objects,
        period: period(report.profile()),
        classes: classes.to_vec(),
        rows: stacks.rows.iter().map(row).collect(),
    })
}

/// Returns what was freed before its thread allocated anything else: what reusing a buffer would save.
pub fn temporary(report: &Report) -> Result<Holders> {
    let classes = known_lifetimes(report.profile())?;
    let stacks = MemoryStacks::noting(report, HeapView::Temporary, |_, labels, _| {
        classes[labels.index()] == Some(TEMPORARY)
    })?;
    Ok(Holders::of(report, HeapView::Temporary, &stacks))
}

/// Returns the lifetime class of each label set; fails if the profile has none.
fn known_lifetimes(profile: &Profile) -> Result<Vec<Option<usize>>> {
    // Perhaps nothing has been freed yet.
    let is_empty =
        profile.sample_count() == 0 && type_index(profile, HeapView::Lifetime.sample_types()[1]).is_some();
    if is_empty || profile.strings().find("lifetime").is_some() {
        return Ok(lifetimes_of_sets(profile));
    }
    let message = match type_index(profile, "temporary_objects") {
        Some(_) => {
            "the profile has no lifetimes, only temporary allocations: flamelet top -i temporary_objects"
        }
        None => "the profile has no lifetimes; a service serves them at /debug/pprof/lifetime",
    };
    Err(Error::new(ErrorKind::Incompatible, message))
}
