//! Places in your code, and what is charged to them.

use flamelet_profile::FunctionId;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::by::add;

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
