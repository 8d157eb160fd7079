//! The functions of a list that a runtime writes, within a limit of memory: any user can write such a list for a
//! process that root records.

use std::sync::Arc;

use flamelet_profile::budget::{ALLOCATION, Budget, Limits};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GeneratedFunction {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Functions that were moved share it.
    pub(super) name: Arc<str>,
}

/// What a function takes: while a table grows, the old one is still there.
const FUNCTION: usize = 3 * size_of::<GeneratedFunction>();
/// What a name takes in addition to its text.
const NAME: usize = ALLOCATION + 2 * size_of::<usize>();

/// The functions that were read so far.
#[derive(Debug)]
pub(super) struct CodeList {
    pub(super) functions: Vec<GeneratedFunction>,
    budget: Budget,
}

impl CodeList {
    /// An empty list that takes up to `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { functions: Vec::new(), budget: Budget::new(Limits::of_memory(room as u64)) }
    }

    /// Adds a function whose name is new. Returns whether there was room for it.
    pub(super) fn add_named(&mut self, start: u64, size: u64, name: &str) -> bool {
        self.has_room(NAME + name.len()) && self.add(start, size, name.into())
    }

    /// Adds a function. Returns whether there was room for it.
    pub(super) fn add(&mut self, start: u64, size: u64, name: Arc<str>) -> bool {
        let has_room = self.has_room(FUNCTION);
        if has_room {
            self.functions.push(GeneratedFunction { start, end: start.saturating_add(size), name });
        }
        has_room
    }

    /// Charges what else a reader needs. Once something did not fit, nothing fits any more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.budget.has_room(bytes)
    }

    /// Returns whether functions were left out.
    pub(super) fn is_cut(&self) -> bool {
        self.budget.check().is_err()
    }

    /// Returns how much memory the list takes at most.
    pub(super) fn used(&self) -> usize {
        self.budget.used()
    }
}
