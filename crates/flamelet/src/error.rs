//! Errors.

use std::fmt;

/// Something could not be profiled, or a profile could not be written. The message is one line for a person to read.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that handle them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This operating system or machine is not supported.
    Unsupported,
    /// An option has an invalid value.
    InvalidOption,
    /// The operating system refused the operation.
    Denied,
    /// The feature was not switched on when the profiler was built, or the service does not have the allocator it
    /// needs.
    NotEnabled,
    /// The client or caller went away before the profile was finished.
    Cancelled,
    /// flamelet itself failed.
    Internal,
}

/// The result of anything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOption, message)
    }

    /// Returns what kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<flamelet_capture::Error> for Error {
    fn from(error: flamelet_capture::Error) -> Self {
        let kind = match error.kind() {
            flamelet_capture::ErrorKind::Unsupported => ErrorKind::Unsupported,
            flamelet_capture::ErrorKind::InvalidOption => ErrorKind::InvalidOption,
            _ => ErrorKind::Denied,
        };
        Self::new(kind, error.to_string())
    }
}
