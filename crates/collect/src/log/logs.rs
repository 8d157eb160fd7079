//! The folder with the logs of a collector, on its own disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flamelet_profile::{Error, Result};

use crate::names::number_of;
use crate::store::disk::{entries, make_folder, make_named_folder};

const LOCK: &str = "collect.lock";

/// The folder with the logs of a collector.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    path: PathBuf,
}

impl Logs {
    /// The logs in the folder of a collector.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("log") }
    }

    /// Takes over the folder of a collector, and creates it if it does not exist. The returned file is the lock.
    pub(crate) fn create(folder: &Path) -> Result<(Self, File)> {
        make_named_folder(folder)?;
        let message = "another collector writes here; give each its own folder";
        let lock = flamelet_store::lock(folder, LOCK, message)?;
        let logs = Self::new(folder);
        make_folder(&logs.path)?;
        Ok((logs, lock))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.log"))
    }

    /// Returns the names of the logs, oldest first.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let files = entries(&self.path)?;
        let logs = files.iter().filter_map(|(name, _)| name.strip_suffix(".log"));
        let mut names: Vec<(u64, &str)> = logs.filter_map(|name| Some((number_of(name)?, name))).collect();
        names.sort_unstable();
        Ok(names.into_iter().map(|(_, name)| name.to_owned()).collect())
    }

    /// Removes a log whose profiles are all in blocks.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| Error::of_file(&path, &error))
    }
}
