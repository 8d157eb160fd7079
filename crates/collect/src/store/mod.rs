//! Where blocks are kept: a folder, or a bucket that many collectors share.

pub(crate) mod cache;
pub(crate) mod disk;
pub(crate) mod folder;
pub(crate) mod prefixed;

use std::fmt::Debug;
use std::path::PathBuf;

use flamelet_profile::Result;

/// What is directly below a folder of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names of folders.
    pub folders: Vec<String>,
    /// The names of files.
    pub files: Vec<String>,
    /// How long these are together.
    pub bytes: u64,
}

/// A place for files with paths like `blocks/checkout/2026-11-16T17/5f0c93ab…-1794706806123/manifest.json`, relative to
/// its root. A file exists completely or not at all, and is never changed.
///
/// Callers rely on no more than this: what [`Store::create`] returned `Ok` for exists until a caller
/// deletes it. A call that fails may have had its effect, and a listing may be old.
pub trait Store: Debug + Send + Sync {
    /// Returns what is directly below a folder; nothing if there is no such folder.
    fn list(&self, folder: &str) -> Result<Listing>;

    /// Returns a file of at most `most` bytes. The kind of the error is `NotFound` if it does not exist.
    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>>;

    /// Writes a file unless there is one with this path, and returns whether it did. When this returns, the file is
    /// durable.
    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool>;

    /// Removes a file, if it exists.
    fn delete(&self, path: &str) -> Result<()>;

    /// Writes the files of a folder whose path is new, the last one last: a reader that sees the last file sees all.
    fn create_together(&self, folder: &str, files: &[(&str, &[u8])]) -> Result<()> {
        for (name, bytes) in files {
            // What exists already comes from an earlier try whose answer was lost.
            self.create(&format!("{folder}/{name}"), bytes)?;
        }
        Ok(())
    }

    /// Removes the files of a folder, the last one first.
    fn delete_together(&self, folder: &str, files: &[&str]) -> Result<()> {
        files.iter().rev().try_for_each(|name| self.delete(&format!("{folder}/{name}")))
    }

    /// Returns the time of the store's own clock, in nanoseconds since 1970; `None` if it has none.
    fn time(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Returns whether other collectors write here, too.
    fn is_shared(&self) -> bool;

    /// Returns where a file is on this disk, if the store is there.
    fn local(&self, path: &str) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// Returns a path as messages show it.
    fn shown(&self, path: &str) -> String;
}
