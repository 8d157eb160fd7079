//! What can be told about the heap of a process that is gone.

use std::path::Path;

use flamelet_capture::heap::Snapshot;
use flamelet_capture::profile::{self, Profile};

/// What to tell: each is a method of [`HeapSnapshot`](super::HeapSnapshot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What is in use.
    InUse,
    /// What was allocated since the start.
    Allocated,
    /// What was in use at the highest moment.
    Peak,
    /// Who frees what others allocated.
    Freed,
    /// How long freed memory had lived.
    Lifetime,
    /// What was freed before its thread allocated anything else.
    Temporary,
}

/// Like [`recover`](super::recover), for any view of the heap: a file that survived its process knows all of
/// them.
pub fn recover_view(path: &Path, view: View) -> profile::Result<Profile> {
    let snapshot = Snapshot::read(path)?;
    Ok(match view {
        View::InUse => snapshot.heap(),
        View::Allocated => super::shown_as_allocated(snapshot.heap()),
        View::Peak => snapshot.peak(),
        View::Freed => snapshot.freed(),
        View::Lifetime => snapshot.lifetime(),
        View::Temporary => snapshot.temporary(),
    })
}
