//! What the tools share: what may be read, and the profiles that are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flamelet_profile::{Limits, Profile};
use serde_json::{Value, json};

use super::Args;
use super::parameters::{self, Arguments};
use super::reach::Reach;
use super::shelf::Shelf;
use super::tools::{Needs, TOOLS, Tool};
use crate::error::{Failure, Result};
use crate::note;
use crate::profiles::{Files, SourceOptions, SymbolOptions};

/// The server's state.
pub(super) struct Server {
    pub(super) reach: Reach,
    /// Where recorded and fetched profiles are saved.
    pub(super) write: Option<PathBuf>,
    may_record: bool,
    limits: Limits,
    shelf: Mutex<Shelf>,
}

impl Server {
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
            files: Files::Below(folders),
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

    fn allows(&self, tool: &Tool) -> Result<()> {
        let missing = match tool.needs {
            Needs::Hosts if !self.reach.has_hosts() => "--host HOST:PORT",
            Needs::Recording if !self.may_record => "--allow-record",
            _ => return Ok(()),
        };
        Err(Failure::new(format!("{} is not allowed; the server's {missing} allows it", tool.name)))
    }

    /// Returns the tools that are allowed, as clients see them.
    pub(super) fn listed_tools(&self) -> Vec<Value> {
        TOOLS.iter().filter(|tool| self.allows(tool).is_ok()).map(Tool::to_json).collect()
    }

    pub(super) fn tool(&self, name: &str) -> Result<&'static Tool> {
        let known = || TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        tool.ok_or_else(|| Failure::new(format!("there is no tool '{name}'; there are {}", known())))
    }

    /// Runs a tool. What the other verbs say on standard error is part of the answer.
    pub(super) fn call(&self, tool: &Tool, arguments: &Value) -> Result<String> {
        self.allows(tool)?;
        let arguments = Arguments::check(arguments, tool.parameters)?;
        let run = || catch_unwind(AssertUnwindSafe(|| (tool.run)(self, &arguments)));
        let (outcome, notes) = note::collect(run);
        let text = outcome.unwrap_or_else(|_| Err(Failure::new("flamelet has a bug: it panicked")))?;
        let notes: String = notes.iter().map(|note| format!("Note: {note}\n")).collect();
        Ok(if notes.is_empty() { text } else { format!("{text}\n{notes}") })
    }
}

/// Errors name the file as the client does.
fn named(failure: &Failure, path: &Path, name: &str) -> Failure {
    Failure::new(failure.to_string().replace(&path.display().to_string(), name))
}

impl Tool {
    fn to_json(&self) -> Value {
        let is_reading = self.needs != Needs::Recording;
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": parameters::schema(self.parameters),
            "annotations": { "readOnlyHint": is_reading, "openWorldHint": self.needs != Needs::Nothing },
        })
    }
}
