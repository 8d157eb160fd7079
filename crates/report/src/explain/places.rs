//! Places in your code, and what is charged to them.

use flamelet_profile::{FunctionId, Profile, Sample};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::about::Subject;
use crate::by::{add, path_of};
use crate::names::is_profiled_allocator;

/// A place in your code, as it is reported.
#[derive(Clone, Debug, Serialize)]
pub struct FoundPlace {
    /// The function.
    pub function: String,
    /// The source file, empty when unknown.
    pub file: String,
    /// The line, 0 when unknown.
    pub line: i64,
    /// The share of the total, from 0 to 1.
    pub share: f64,
}

/// A place in your code: the function, and the line if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CodePlace {
    pub(super) function: FunctionId,
    pub(super) line: i64,
}

/// What one rule found in the samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    pub(super) value: i64,
    /// How much of it is charged to each place in your code.
    pub(super) places: FxHashMap<CodePlace, i64>,
}

impl Matches {
    pub(super) fn add(&mut self, place: Option<CodePlace>, value: i64) {
        add(&mut self.value, value);
        if let Some(place) = place {
            add(self.places.entry(place).or_default(), value);
        }
    }
}

/// Returns whether costs of this kind are charged to a function: it is yours, and no allocator, which acts for the function
/// that asked for memory. An allocator of your own is charged with its time, but not with the memory.
pub(super) fn is_charged(profile: &Profile, owners: &Owners, about: Subject, id: FunctionId) -> bool {
    if !owners.of_function(id).is_yours() {
        return false;
    }
    let function = profile.function(id);
    let (name, file) = (profile.string(function.name), profile.string(function.filename));
    let holds_for_others = about == Subject::Memory && name.contains(" as core::alloc::global::GlobalAlloc>");
    !holds_for_others && !is_profiled_allocator(&path_of(name, file))
}

/// Returns the innermost frame of a sample to which costs of this kind are charged.
pub(super) fn charged_place(
    profile: &Profile,
    owners: &Owners,
    about: Subject,
    sample: &Sample<'_>,
) -> Option<CodePlace> {
    let lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
    let mut places = lines.filter_map(|line| Some(CodePlace { function: line.function?, line: line.line }));
    places.find(|place| is_charged(profile, owners, about, place.function))
}
