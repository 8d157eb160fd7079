//! The errors of profiles that come from outside.

use std::fmt;

/// A profile could not be read, written or combined. The message is one line for the user.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that need to distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input ends too early.
    Truncated,
    /// The input is in none of the formats that can be read.
    UnknownFormat,
    /// The input is not in the expected format.
    WrongFormat,
    /// The input is in the expected format, but its parts contradict each other.
    Corrupt,
    /// The input has more of something than can be stored, whatever the limits.
    TooLarge,
    /// Reading further would take more memory than the [`Limits`](crate::Limits) allow.
    OutOfMemory,
    /// Reading further would take more work than the [`Limits`](crate::Limits) allow.
    OutOfWork,
    /// The profiles or options do not fit together.
    Incompatible,
    /// The operating system refused to read or write.
    Io,
}

/// The result of anything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of `kind` with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
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

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}
