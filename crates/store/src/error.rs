//! Errors with the file that they are about.

use std::io;
use std::path::Path;

use flamelet_profile::{Error, ErrorKind};

/// Returns an error of the operating system that says which file it is about.
pub(crate) fn about(path: &Path, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{}: {error}", path.display()))
}
