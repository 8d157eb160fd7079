//! Who allocates: the thread's name and its labels.

use super::ledger::{Ledger, RecordId};
use super::thread;
use crate::labels;
use crate::tables::ContextWords;

/// Returns the context of this thread. Without labels it is remembered, and looked up again now and then; the name
/// comes from the kernel then, and not from the CPU sampler's memory of it.
pub(super) fn current(ledger: &Ledger) -> RecordId {
    let labels = labels::current_id();
    if labels == 0
        && let Some(known) = thread::known_context()
    {
        return RecordId(known);
    }
    let mut text = ContextWords::of_this_thread(labels);
    let id = ledger.context(text.words());
    if labels == 0 {
        thread::remember_context(id.0);
    }
    id
}
