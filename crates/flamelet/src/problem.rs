//! Problems that nobody asked about: they are reported, and the service goes on.

use std::io::Write as _;

/// Standard error may be a file on the very disk that is full. That must not end the thread that reports it, so
/// `eprintln!`, which panics, is not used.
pub(crate) fn to_standard_error(problem: &str) {
    let _ = writeln!(std::io::stderr(), "flamelet: {problem}");
}
