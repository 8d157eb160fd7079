//! Who allocates: the thread's name and its labels.

use super::ledger::{ContextWords, Ledger, RecordId};
use super::thread;
use crate::labels;

/// Returns the context of this thread. Without labels it is remembered, and looked up again now and then; the name
/// comes from the kernel then, and not from the CPU sampler's memory of it.
pub(super) fn current(ledger: &Ledger) -> RecordId {
    let labels = labels::current_id();
    if labels == 0
        && let Some(known) = thread::known_context()
    {
        return RecordId(known);
    }
    let mut text = ContextWords::new();
    let name = crate::threads::ask_name();
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    text.push(b"thread", &name[..length]);
    if labels != 0 {
        // The table of labels is behind a lock that this very thread may hold, if it allocates while it does.
        for (name, value) in labels::try_resolve(labels).iter().flat_map(labels::LabelSet::iter) {
            text.push(name.as_bytes(), value.as_bytes());
        }
    }
    let id = ledger.context(text.words());
    if labels == 0 {
        thread::remember_context(id.0);
    }
    id
}
