//! Errors as one line for the user: what it is about, what is wrong, what to do.

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
        // One line, even if the text comes from a library or contains a file name with line breaks.
        let message: String = message.into().split(['\n', '\r']).collect::<Vec<_>>().join(" ");
        Self { message: without_number(&message), is_closed_pipe: false }
    }

    /// The reader of our output has gone, as with `| head`: this is not reported.
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
        Self { is_closed_pipe, ..Self::new(plain_words(&error)) }
    }
}

/// Returns the operating system's error in words.
pub(crate) fn plain_words(error: &io::Error) -> String {
    // Other libraries put the number of the system's error into an error of their own.
    if error.raw_os_error().is_none() && error.kind() != io::ErrorKind::StorageFull {
        return error.to_string();
    }
    let words = match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder",
        io::ErrorKind::PermissionDenied => "permission denied",
        io::ErrorKind::AlreadyExists => "already exists",
        io::ErrorKind::IsADirectory => "this is a folder",
        io::ErrorKind::NotADirectory => "part of this path is a file, not a folder",
        io::ErrorKind::StorageFull => "the disk is full",
        _ => return without_number(&error.to_string()),
    };
    words.to_owned()
}

/// Removes the error number.
fn without_number(text: &str) -> String {
    match text.split_once(" (os error ") {
        Some((before, after)) => {
            let after = after.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => text.to_owned(),
    }
}

impl From<flamelet_profile::Error> for Failure {
    fn from(error: flamelet_profile::Error) -> Self {
        use flamelet_profile::ErrorKind::{OutOfMemory, OutOfWork};
        // The library does not know the option that raises the limit.
        match error.kind() {
            OutOfMemory | OutOfWork => Self::new(format!("{error}; raise it with --max-memory SIZE")),
            _ => Self::new(error.to_string()),
        }
    }
}

/// Adds what a failure is about.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_put_into_words() {
        for (number, words) in [
            (2, "no such file or folder"),
            (13, "permission denied"),
            (17, "already exists"),
            (21, "this is a folder"),
            (28, "the disk is full"),
            (24, "Too many open files"),
        ] {
            let failed: std::result::Result<(), _> = Err(io::Error::from_raw_os_error(number));
            assert_eq!(
                failed.about("x.pb").map_err(|failure| failure.to_string()),
                Err(format!("x.pb: {words}"))
            );
        }
        let wrapped = io::Error::new(io::ErrorKind::StorageFull, "No space left on device at path \"/x/.y\"");
        assert_eq!(Failure::from(wrapped).to_string(), "the disk is full");
        let own = io::Error::new(io::ErrorKind::NotFound, "no such folder");
        assert_eq!(Failure::from(own).to_string(), "no such folder");
        assert_eq!(Failure::new("a: Gone (os error 5); try b").to_string(), "a: Gone; try b");
    }
}
