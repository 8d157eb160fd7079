//! Places in your code, and what is charged to them.

use flamelet_profile::FunctionId;
use rustc_hash::FxHashMap;

use crate::by::add;

/// A place in your code: the function, and the line if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) function: FunctionId,
    pub(super) line: i64,
}

/// What one rule found in the samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    pub(super) value: i64,
    /// How much of it is charged to each place in your code.
    pub(super) places: FxHashMap<Place, i64>,
}

impl Matches {
    pub(super) fn add(&mut self, place: Option<Place>, value: i64) {
        add(&mut self.value, value);
        if let Some(place) = place {
            add(self.places.entry(place).or_default(), value);
        }
    }
}
