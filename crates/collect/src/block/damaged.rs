//! The error of a file that is not what it should be.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flamelet_profile::{Error, ErrorKind, Result, terminal};

pub(crate) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the block is damaged: {}", terminal::one_line(what, 200)))
}

/// Calls a function that reads a file. The checks before it are meant to leave nothing on which the Parquet reader
/// panics; a file that still makes it panic must not end a collector.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged("it cannot be read as Parquet")))
}
