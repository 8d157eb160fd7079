//! Errors of the viewer.

use std::fmt;

/// Something could not be shown. The message is one line for the user of the page.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid: a wrong pattern, a wrong number.
    BadRequest,
    /// There is no such profile or function.
    NotFound,
    /// A profile could not be read or taken.
    Unreadable,
    /// The maximum number of profiles is already being taken.
    Busy,
    /// The operating system refused to listen.
    Io,
}

impl Error {
    /// Returns an error of `kind` with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns what kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Why a profile could not be taken.
impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::new(ErrorKind::Unreadable, message)
    }
}

/// Why a profile could not be taken.
impl From<&str> for Error {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string())
    }
}
