//! Errors in binaries and debug files, which are untrusted.

use std::fmt;
use std::path::Path;

/// A file could not be read, understood or searched. The message is one line for the user.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that decide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file, symbol or process.
    NotFound,
    /// The file is not an ELF file.
    WrongFormat,
    /// The file is in the expected format, but its parts contradict each other.
    Corrupt,
    /// Continuing would take more memory than allowed.
    TooLarge,
    /// Continuing would take more time than allowed.
    TooSlow,
    /// The file needs something that this build does not support (a processor, a compression).
    Unsupported,
    /// The operating system or a server refused.
    Io,
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

    /// Adds the name of the file to the error.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self { kind: self.kind, message: format!("{}: {}", path.display(), self.message) }
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
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<object::Error> for Error {
    fn from(error: object::Error) -> Self {
        Self::new(ErrorKind::Corrupt, format!("malformed ELF file: {error}"))
    }
}

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        Self::new(ErrorKind::Corrupt, format!("malformed debug information: {error}"))
    }
}
