//! What a heap profile says besides the value that is shown: other columns, labels and comments.

use flamelet_profile::{Profile, Sample, StringId};
use flamelet_symbol::owner::Owners;

use super::about::Subject;
use super::places::{Matches, charged_place};
use crate::by::add;
use crate::heap::{TEMPORARY, lifetimes_of_sets};

/// What rules about memory look at.
#[derive(Default)]
pub(super) struct MemoryFacts {
    columns: MemoryColumns,
    lifetimes: Vec<Option<usize>>,
    steady: Option<(StringId, StringId)>,
    /// Objects that were freed before their thread allocated anything else.
    pub(super) temporary: Matches,
    /// Growth that continued from moment to moment.
    pub(super) steady_growth: Matches,
    /// Bytes that were allocated and never written.
    pub(super) unwritten: Matches,
    pub(super) allocated_objects: i64,
    pub(super) allocated_bytes: i64,
    pub(super) grown_bytes: i64,
    pub(super) live_bytes: i64,
    /// The resident memory of the process, if a comment says it.
    pub(super) resident: Option<i64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct MemoryColumns {
    alloc_objects: Option<usize>,
    alloc_space: Option<usize>,
    freed_objects: Option<usize>,
    inuse_space: Option<usize>,
    temporary_objects: Option<usize>,
    growth_space: Option<usize>,
    written_space: Option<usize>,
}

impl MemoryColumns {
    fn of(profile: &Profile) -> Self {
        let at =
            |name: &str| profile.sample_types().iter().position(|value| profile.string(value.kind) == name);
        Self {
            alloc_objects: at("alloc_objects"),
            alloc_space: at("alloc_space"),
            freed_objects: at("freed_objects"),
            inuse_space: at("inuse_space"),
            temporary_objects: at("temporary_objects"),
            growth_space: at("growth_space"),
            written_space: at("written_space"),
        }
    }
}

impl MemoryFacts {
    pub(super) fn of(profile: &Profile, owners: &Owners) -> Self {
        let find = |text: &str| profile.strings().find(text);
        let lifetimes = find("lifetime").map(|_| lifetimes_of_sets(profile)).unwrap_or_default();
        let mut facts = Self {
            columns: MemoryColumns::of(profile),
            lifetimes,
            steady: find("steady").zip(find("yes")),
            resident: profile.comments().find_map(resident),
            ..Self::default()
        };
        // Profiles of time have none of the columns, and many samples.
        if facts.columns != MemoryColumns::default() {
            profile.samples().for_each(|sample| facts.add(profile, owners, &sample));
        }
        facts
    }

    fn add(&mut self, profile: &Profile, owners: &Owners, sample: &Sample<'_>) {
        let columns = self.columns;
        let value = |column: Option<usize>| column.map_or(0, |at| sample.values[at]);
        let allocated = value(columns.alloc_space);
        add(&mut self.allocated_objects, value(columns.alloc_objects.or(columns.freed_objects)));
        add(&mut self.allocated_bytes, allocated);
        add(&mut self.live_bytes, value(columns.inuse_space));
        add(&mut self.grown_bytes, value(columns.growth_space).max(0));
        let place = || charged_place(profile, owners, Subject::Memory, sample);
        let lifetime = self.lifetimes.get(sample.labels.index()).copied().flatten();
        let temporary = match lifetime == Some(TEMPORARY) {
            true => value(columns.freed_objects.or(columns.alloc_objects)),
            false => value(columns.temporary_objects),
        };
        if temporary > 0 {
            self.temporary.add(place(), temporary);
        }
        let grown = value(columns.growth_space);
        if grown > 0 && self.is_steady(profile, sample) {
            self.steady_growth.add(place(), grown);
        }
        let unwritten = allocated.saturating_sub(value(columns.written_space));
        if columns.written_space.is_some() && unwritten > 0 {
            self.unwritten.add(place(), unwritten);
        }
    }

    /// Returns whether labels say how long memory lived.
    pub(super) fn has_lifetimes(&self) -> bool {
        self.lifetimes.iter().any(Option::is_some)
    }

    fn is_steady(&self, profile: &Profile, sample: &Sample<'_>) -> bool {
        let labels = profile.labels(sample.labels);
        self.steady.is_some_and(|(key, yes)| labels.iter().any(|label| label.key == key && label.text == yes))
    }
}

/// Returns the resident memory from the comment that a service writes into its heap profiles.
fn resident(comment: &str) -> Option<i64> {
    let text = comment.strip_prefix("flamelet: resident memory ")?;
    text.strip_suffix(" bytes")?.parse().ok()
}
