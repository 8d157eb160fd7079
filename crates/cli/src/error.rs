//! What went wrong, in one line for a person: what it is about, what is wrong, what to do.

use std::fmt;
use std::io;

/// A failure of the command. Exit status 2.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    is_closed_pipe: bool,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        // One line, whatever a library or a file name puts into it.
        let message: String = message.into().split(['\n', '\r']).collect::<Vec<_>>().join(" ");
        Self { message, is_closed_pipe: false }
    }

    /// The reader of our output has gone, as with `| head`: nothing to complain about.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.is_closed_pipe
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let is_closed_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Self { is_closed_pipe, ..Self::new(error.to_string()) }
    }
}

impl From<flamelet_profile::Error> for Failure {
    fn from(error: flamelet_profile::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Says what a failure is about.
pub(crate) trait About<T> {
    fn about(self, subject: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Failure>> About<T> for std::result::Result<T, E> {
    fn about(self, subject: impl fmt::Display) -> Result<T> {
        self.map_err(|error| {
            let failure: Failure = error.into();
            let is_closed_pipe = failure.is_closed_pipe;
            Failure { is_closed_pipe, ..Failure::new(format!("{subject}: {failure}")) }
        })
    }
}
