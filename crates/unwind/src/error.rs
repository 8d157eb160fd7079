//! What can go wrong when unwind tables are made. (Unwinding itself never fails: it ends, see [`crate::End`].)

use std::fmt;

/// A module or a process could not be prepared for unwinding. The message is one line for a person.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that decide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not a 64-bit little-endian ELF file of a known machine.
    WrongFormat,
    /// The file is one, but its parts contradict each other.
    Corrupt,
    /// The operating system refused to read.
    Io,
    /// This system or machine is not supported.
    Unsupported,
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

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string())
    }
}
