//! How long memory lives, and what lives for nothing.

use std::io::{self, Write};

use flamelet_profile::{Error, ErrorKind, LabelSetId, Profile, Result, unit};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::View;
use super::holders::{Holders, write_heading, write_rest};
use super::stacks::{Counts, Stacks, period, type_index, write_place};
use crate::flame::LIFETIMES;
use crate::node::NodeId;
use crate::report::Report;

/// The class of what was freed before its thread allocated anything else.
const TEMPORARY: &str = LIFETIMES[0];

/// Memory that lived about as long.
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
    /// The bytes that it allocated and that were freed by now.
    pub bytes: i64,
    /// The objects.
    pub objects: i64,
    /// The class that most of its bytes are in.
    pub mostly: &'static str,
    /// The bytes in each class, as [`Lifetimes::classes`] has them.
    pub by_class: Vec<i64>,
    /// The functions that are nobody's go-betweens, innermost first.
    pub own: Vec<String>,
    /// All functions, innermost first.
    pub stack: Vec<String>,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Lifetimes {
    /// Bytes in all.
    pub total_bytes: i64,
    /// Objects in all.
    pub total_objects: i64,
    /// The mean distance between samples in bytes; 0 when every allocation was seen.
    pub period: i64,
    /// All classes, shortest first.
    pub classes: Vec<LifetimeClass>,
    /// The stacks that allocated, most bytes first.
    pub rows: Vec<LifetimeRow>,
}

/// How long freed memory had lived.
pub fn lifetimes(report: &Report) -> Result<Lifetimes> {
    let classes_of_sets = classes_of_sets(report.profile())?;
    let mut by_class: FxHashMap<Vec<NodeId>, Vec<i64>> = FxHashMap::default();
    let mut classes = LIFETIMES.map(|lifetime| LifetimeClass { lifetime, bytes: 0, objects: 0 });
    let stacks = Stacks::noting(report, View::Lifetime, |stack, labels, counts| {
        if let Some(class) = classes_of_sets[labels.index()] {
            classes[class].bytes += counts.bytes;
            classes[class].objects += counts.objects;
            by_class.entry(stack.to_vec()).or_insert_with(|| vec![0; LIFETIMES.len()])[class] += counts.bytes;
        }
        true
    })?;
    let row = |(stack, counts): &(Vec<NodeId>, Counts)| {
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

/// What was freed before its thread allocated anything else: what a buffer that is kept would save.
pub fn temporary(report: &Report) -> Result<Holders> {
    let classes = classes_of_sets(report.profile())?;
    let stacks = Stacks::noting(report, View::Temporary, |_, labels, _| classes[labels.index()] == Some(0))?;
    Ok(Holders::of(report, View::Temporary, &stacks))
}

/// For each set of labels its class of lifetimes, as a row of [`LIFETIMES`].
fn classes_of_sets(profile: &Profile) -> Result<Vec<Option<usize>>> {
    // Nothing may have been freed yet.
    if profile.sample_count() == 0 && type_index(profile, View::Lifetime.types()[1]).is_some() {
        return Ok(vec![None; profile.label_set_count()]);
    }
    let Some(key) = profile.strings().find("lifetime") else {
        let message = match type_index(profile, "temporary_objects") {
            Some(_) => {
                "the profile has no lifetimes; what is temporary it counts: flamelet top -i temporary_objects"
            }
            None => "the profile has no lifetimes; a service gives them at /debug/pprof/lifetime",
        };
        return Err(Error::new(ErrorKind::Incompatible, message));
    };
    let class = |set: LabelSetId| {
        let label = profile.labels(set).iter().find(|label| label.key == key)?;
        LIFETIMES.iter().position(|&known| known == profile.string(label.text))
    };
    Ok((0..profile.label_set_count()).map(|set| class(LabelSetId::from_index(set))).collect())
}

impl Lifetimes {
    /// Prints the classes and the first `limit` stacks for a person.
    pub fn write_text(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        const BAR: usize = 40;
        write_heading(
            "Freed",
            Counts { objects: self.total_objects, bytes: self.total_bytes },
            self.period,
            out,
        )?;
        writeln!(out, "{:>12} {:>10} {:>7} {:>10}", "lived", "bytes", "share", "objects")?;
        for class in self.classes.iter().filter(|class| class.bytes != 0 || class.objects != 0) {
            let share = class.bytes as f64 / self.total_bytes.max(1) as f64;
            let bar = "█".repeat((share * BAR as f64).round().clamp(0.0, BAR as f64) as usize);
            let percent = unit::percentage(class.bytes, self.total_bytes);
            let bytes = unit::label(class.bytes, "bytes");
            writeln!(
                out,
                "{:>12} {bytes:>10} {:>7} {:>10}  {bar}",
                class.lifetime,
                percent.trim(),
                class.objects
            )?;
        }
        writeln!(out, "\n{:>10} {:>7} {:>12} {:>10}  where", "bytes", "share", "mostly", TEMPORARY)?;
        for row in self.rows.iter().take(limit) {
            write!(
                out,
                "{:>10} {:>7} {:>12} {:>10}  ",
                unit::label(row.bytes, "bytes"),
                unit::percentage(row.bytes, self.total_bytes).trim(),
                row.mostly,
                unit::percentage(row.by_class[0], row.bytes).trim(),
            )?;
            write_place(out, &row.own, 43)?;
        }
        write_rest(self.rows.len(), limit, out)
    }
}
