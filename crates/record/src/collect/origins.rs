//! Which event a record belongs to.

use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::events::ring_records::RingRecord;
use crate::events::session::{Origin, Origins};

/// The origins of records, copied so that the common case takes no lock.
pub(super) struct KnownOrigins {
    shared: Origins,
    known: FxHashMap<u64, Origin>,
}

impl KnownOrigins {
    pub(super) fn new(shared: Origins) -> Self {
        Self { shared, known: FxHashMap::default() }
    }

    /// Returns the event that `record` comes from.
    pub(super) fn of(&mut self, record: &RingRecord<'_>) -> Option<Origin> {
        let id = record.identifier()?;
        if let Some(&origin) = self.known.get(&id) {
            return Some(origin);
        }
        self.known = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.known.get(&id).copied()
    }
}
