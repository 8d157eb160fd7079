//! The errors of a recording.

use std::fmt;

/// A recording could not be made. The message is one line for the user and names the cause and the remedy.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that decide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The kernel forbids it to this user, or a sandbox does.
    NotPermitted,
    /// The kernel or the machine cannot do it.
    Unsupported,
    /// There is no such process, or the command could not be started.
    NoTarget,
    /// The options contradict each other or name something unknown.
    BadOption,
    /// The operating system failed otherwise.
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
            std::io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            std::io::ErrorKind::NotFound => ErrorKind::NoTarget,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}
