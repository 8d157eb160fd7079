//! The modules that are loaded into this process, for the unwinder.

use flamelet_unwind::live;

use crate::{Error, ErrorKind, Result};

/// Looks for modules that were loaded or unloaded, and prepares the new ones.
pub(crate) fn refresh() -> Result<()> {
    live::refresh().map(drop).map_err(|error| {
        let kind = match error.kind() {
            flamelet_unwind::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Denied,
        };
        Error::new(kind, error.to_string())
    })
}
