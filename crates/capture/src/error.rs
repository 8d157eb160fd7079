//! Why a capture could not start.

use std::fmt;

/// A capture could not start. The message is one line for a person.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that decide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This operating system or machine is not supported.
    Unsupported,
    /// An option has a value that makes no sense.
    InvalidOption,
    /// The operating system refused: every engine that could be used failed.
    Denied,
}

/// The result of anything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What kind of error this is.
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

impl From<flamelet_unwind::Error> for Error {
    fn from(error: flamelet_unwind::Error) -> Self {
        let kind = match error.kind() {
            flamelet_unwind::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Denied,
        };
        Self::new(kind, error.to_string())
    }
}
