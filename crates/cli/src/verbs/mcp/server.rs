//! What the tools share: what may be read, and the profiles that are kept.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flamelet_profile::{Limits, Profile};

use super::Args;
use super::reach::Reach;
use super::shelf::Shelf;
use crate::error::{Failure, Result};
use crate::profiles::{AllowedFiles, SourceOptions, SymbolOptions};

/// The server's state.
pub(super) struct McpServer {
    pub(super) reach: Reach,
    /// Where recorded and fetched profiles are saved.
    pub(super) write: Option<PathBuf>,
    pub(super) may_record: bool,
    limits: Limits,
    shelf: Mutex<Shelf>,
}

impl McpServer {
    pub(super) fn new(args: &Args) -> Result<Self> {
        let folders = if args.allow.is_empty() { vec![PathBuf::from(".")] } else { args.allow.clone() };
        // What is written may be read again.
        let folders: Vec<PathBuf> = folders.into_iter().chain(args.write.clone()).collect();
        Ok(Self {
            reach: Reach::new(&folders, &args.host)?,
            write: args.write.clone(),
            may_record: args.allow_record,
            limits: args.memory.limits(),
            shelf: Mutex::default(),
        })
    }

    pub(super) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how files are opened: only below the allowed folders, whatever a profile names.
    pub(super) fn source_options(&self) -> SourceOptions {
        let folders = self.reach.folders().to_vec();
        SourceOptions {
            limits: self.limits,
            without_times: true,
            symbols: SymbolOptions { only_below: Some(folders.clone()), ..SymbolOptions::default() },
            files: AllowedFiles::Below(folders),
            ..SourceOptions::default()
        }
    }

    /// Opens a file, or returns a profile that is kept.
    pub(super) fn profile(&self, name: &str) -> Result<Profile> {
        if let Some(profile) = self.shelf().find(name) {
            return Ok(profile.clone());
        }
        let path = self.reach.path(name)?;
        if path.is_dir() {
            return Err(Failure::new(format!("{name}: is a folder; `open` lists the files in it")));
        }
        self.read(&path).map_err(|failure| named(&failure, &path, name))
    }

    /// Reads a file of an allowed folder.
    pub(super) fn read(&self, path: &Path) -> Result<Profile> {
        let mut options = self.source_options();
        options.sources = vec![path.to_string_lossy().into_owned()];
        let opened = options.open()?;
        opened.notes.iter().for_each(|note| note!("{note}"));
        Ok(opened.profile)
    }
}

/// Errors name the file as the client does.
fn named(failure: &Failure, path: &Path, name: &str) -> Failure {
    Failure::new(failure.to_string().replace(&path.display().to_string(), name))
}
