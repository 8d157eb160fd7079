//! The error of this crate and of all that are built on it.

use std::path::Path;
use std::{fmt, io};

/// Something failed. The message is one line for a person: what is wrong and, where that is known, what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that decide by them.
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
    /// The input has more of something than can be held, whatever the limits.
    TooLarge,
    /// Reading on would take more memory than the [`Limits`](crate::Limits) allow.
    OutOfMemory,
    /// Reading on would take more work than the [`Limits`](crate::Limits) allow.
    OutOfWork,
    /// The profiles or options do not fit together.
    Incompatible,
    /// There is no such file, process, profile or function.
    NotFound,
    /// A profile could not be read or taken.
    Unreadable,
    /// An option has a value that makes no sense, or options contradict each other.
    InvalidOption,
    /// This operating system, machine or build cannot do it.
    Unsupported,
    /// The operating system or a sandbox does not permit it.
    Denied,
    /// It was not switched on when the profiler was built, or the service has no allocator for it.
    NotEnabled,
    /// As many of these as are allowed are running already.
    Busy,
    /// The caller went away before the end.
    Cancelled,
    /// The operating system failed otherwise.
    Io,
    /// flamelet itself failed.
    Internal,
}

/// The result of anything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An option, or a parameter of a request, makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOption, message)
    }

    /// The requested thing does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// A profile could not be read or taken.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unreadable, message)
    }

    /// An error of the operating system, with the file that it is about.
    pub fn of_file(path: &Path, error: &io::Error) -> Self {
        Self::new(kind_of(error), format!("{}: {error}", path.display()))
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

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            _ => kind_of(&error),
        };
        Self::new(kind, error.to_string())
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Io,
    }
}
