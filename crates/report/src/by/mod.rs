//! Costs by the owner of the code: your functions, crates, modules, lines or threads.
//!
//! The cost of others' code is charged to the nearest frame of yours, broken down into its parts.

mod activity;
mod charge;
mod frames;
mod threads;

use std::str::FromStr;

use flamelet_symbol::owner::Owners;
use serde::Serialize;

use crate::report::Report;
pub(crate) use activity::{
    ALLOCATORS, COMPRESSION, CRYPTOGRAPHY, JSON, LOGGING, PATTERN_COMPILERS, SERIALIZATION, SPAN_WRAPPERS,
    begins, path_of,
};
use charge::charged;
pub(crate) use threads::{totals_by_process_and_thread, totals_by_thread};

/// What costs are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Your functions.
    Yours,
    /// Crates, with their versions.
    Crate,
    /// Modules.
    Module,
    /// Lines of your code.
    Line,
    /// Threads, by name.
    Thread,
}

impl Grouping {
    /// Every grouping with its name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("yours", Self::Yours),
        ("crate", Self::Crate),
        ("module", Self::Module),
        ("line", Self::Line),
        ("thread", Self::Thread),
    ];

    /// Returns whether others' code is charged to yours.
    const fn charges_yours(self) -> bool {
        matches!(self, Self::Yours | Self::Line)
    }
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, grouping)| *grouping).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown grouping {text:?}: use one of {}", names.join(", "))
        })
    }
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The function, crate, module, line or thread.
    pub name: String,
    /// Whose code it is: `yours`, `dependency`, `std`, `runtime`, `system`, `kernel`, `unknown`; empty for threads.
    pub owner: &'static str,
    /// The cost charged to this group.
    pub flat: i64,
    /// The cost charged to this group and everything that it calls.
    pub cum: i64,
    /// What the flat cost consists of, largest first.
    pub parts: Vec<GroupPart>,
}

/// A part of what a group costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupPart {
    /// `own code`, `allocating`, `hashing`, …, or the name of the crate.
    pub name: String,
    /// Its cost.
    pub value: i64,
}

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Groups {
    /// The name of the grouping.
    pub by: &'static str,
    /// What is shown: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the values.
    pub unit: String,
    /// The base of percentages.
    pub total: i64,
    /// How much of the total has no frame of yours; 0 if that does not matter.
    pub without_yours: i64,
    /// The groups, most expensive first.
    pub rows: Vec<Group>,
    /// How many groups there were before the count was limited.
    pub candidates: usize,
}

/// Sums the costs of `report` by `grouping`; at most as many groups as its options ask for.
pub fn by(report: &Report, grouping: Grouping, owners: &Owners) -> Groups {
    let mut groups = all_groups(report, grouping, owners);
    if let Some(limit @ 1..) = report.options.node_count {
        groups.rows.truncate(limit);
    }
    groups
}

/// Sums the costs of `report` by `grouping`, and returns every group.
pub(crate) fn all_groups(report: &Report, grouping: Grouping, owners: &Owners) -> Groups {
    let (mut rows, without_yours) = match grouping {
        Grouping::Thread => (threads(report), 0),
        _ => charged(report, grouping, owners),
    };
    let is_cum = report.options.sort == crate::options::Sort::Cum;
    rows.sort_by(|a, b| {
        let key = |row: &Group| if is_cum { row.cum } else { row.flat };
        key(b).unsigned_abs().cmp(&key(a).unsigned_abs()).then_with(|| a.name.cmp(&b.name))
    });
    Groups {
        by: Grouping::ALL.iter().find(|(_, known)| *known == grouping).map_or("", |(name, _)| name),
        sample_type: report.value_name(),
        unit: report.unit().to_string(),
        total: report.total,
        without_yours,
        candidates: rows.len(),
        rows,
    }
}

fn threads(report: &Report) -> Vec<Group> {
    let totals = totals_by_thread(&report.profile, |sample| report.value(sample)).into_iter();
    let group = |(name, value)| {
        let parts = vec![GroupPart { name: OWN_CODE.into(), value }];
        Group { name, owner: "", flat: value, cum: value, parts }
    };
    totals.map(group).collect()
}

/// The name of the part that is a group's own code.
const OWN_CODE: &str = "own code";

/// Adds up values from a file, which may be as large as they like.
pub(crate) fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

#[cfg(test)]
mod tests;
