//! Views of the heap of a process that has ended.

use std::path::Path;

use flamelet_capture::heap::Snapshot;
use flamelet_capture::profile::{self, Error, ErrorKind, Profile};

pub use flamelet_capture::profile::HeapView as View;

/// Like [`recover`](super::recover), for any view of the heap but [`View::Growth`]: the file that a process leaves
/// behind holds a single snapshot.
pub fn recover_view(path: &Path, view: View) -> profile::Result<Profile> {
    let snapshot = Snapshot::read(path)?;
    Ok(match view {
        View::InUse => snapshot.heap(),
        View::Allocated => super::shown_as_allocated(snapshot.heap()),
        View::Peak => snapshot.peak(),
        View::Freed => snapshot.freed(),
        View::Lifetime => snapshot.lifetime(),
        View::Temporary => snapshot.temporary(),
        View::Growth => {
            return Err(Error::new(ErrorKind::Incompatible, "one moment does not say what grows"));
        }
    })
}
