//! A part of a store, as a store of its own.

use std::path::PathBuf;
use std::sync::Arc;

use flamelet_profile::Result;

use crate::store::{Listing, Store};

/// What is below a folder of a store. Nothing outside can be reached through it: paths are made by this crate, from names without
/// slashes.
#[derive(Clone, Debug)]
pub(crate) struct Prefixed {
    store: Arc<dyn Store>,
    /// Ends in a slash.
    prefix: String,
}

impl Prefixed {
    pub(crate) fn new(store: Arc<dyn Store>, folder: &str) -> Self {
        Self { store, prefix: format!("{folder}/") }
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

impl Store for Prefixed {
    fn list(&self, folder: &str) -> Result<Listing> {
        self.store.list(&self.path(folder))
    }

    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
        self.store.get(&self.path(path), most)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.store.create(&self.path(path), bytes)
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.store.delete(&self.path(path))
    }

    fn create_together(&self, folder: &str, files: &[(&str, &[u8])]) -> Result<()> {
        self.store.create_together(&self.path(folder), files)
    }

    fn delete_together(&self, folder: &str, files: &[&str]) -> Result<()> {
        self.store.delete_together(&self.path(folder), files)
    }

    fn time(&self) -> Result<Option<i64>> {
        self.store.time()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn local(&self, path: &str) -> Option<PathBuf> {
        self.store.local(&self.path(path))
    }

    fn shown(&self, path: &str) -> String {
        self.store.shown(&self.path(path))
    }
}
