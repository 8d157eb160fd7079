//! What a viewer shows: one profile, a folder of them, or a service that is asked for more.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flamelet_report::flame::profile::Profile;
use serde::Serialize;

use crate::code::CodeOptions;
use crate::error::{Error, ErrorKind};

/// A profile that was just taken, and what to call it.
pub struct Taken {
    /// Its name in the list.
    pub name: String,
    /// The profile.
    pub profile: Profile,
}

/// Takes profiles of a live service. The viewer has no HTTP client; whoever opens it brings one.
pub trait Take: Send + Sync {
    /// Takes a CPU profile of so many seconds; an error is one line for a person.
    fn take(&self, seconds: u32) -> Result<Taken, String>;
}

type OpenFile = Box<dyn Fn(&Path) -> Result<Profile, String> + Send + Sync>;

enum Shelf {
    Folder { path: PathBuf, open: OpenFile },
    Memory(Mutex<Vec<(String, Arc<Profile>)>>),
}

/// What a viewer shows.
pub struct Source {
    shelf: Shelf,
    take: Option<Box<dyn Take>>,
    pub(crate) code: Option<CodeOptions>,
}

/// One profile of a [`Source`], as the page lists it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) detail: String,
}

impl Source {
    /// One profile. A profile that is a difference (its base labelled `pprof::base`, as pprof does) is shown
    /// as one.
    pub fn profile(name: &str, profile: Profile) -> Self {
        Self::profiles(vec![(name.to_owned(), profile)])
    }

    /// Several profiles to choose from and to compare; the last is shown first.
    pub fn profiles(profiles: Vec<(String, Profile)>) -> Self {
        let profiles = profiles.into_iter().map(|(name, profile)| (name, Arc::new(profile))).collect();
        Self { shelf: Shelf::Memory(Mutex::new(profiles)), take: None, code: None }
    }

    /// The files of a folder, each read with `open` when somebody chooses it.
    pub fn folder(
        path: impl Into<PathBuf>,
        open: impl Fn(&Path) -> Result<Profile, String> + Send + Sync + 'static,
    ) -> Self {
        Self { shelf: Shelf::Folder { path: path.into(), open: Box::new(open) }, take: None, code: None }
    }

    /// A live service: what was taken of it so far, and `take` for more.
    pub fn live(taken: Vec<Taken>, take: impl Take + 'static) -> Self {
        let taken = taken.into_iter().map(|taken| (taken.name, taken.profile)).collect();
        Self { take: Some(Box::new(take)), ..Self::profiles(taken) }
    }

    /// Lets the page show the source files and binaries that profiles name. Off unless asked for, because
    /// it reads files of this machine.
    #[must_use]
    pub fn with_code(self, code: CodeOptions) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.take.is_some()
    }

    /// What there is to choose from.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Error> {
        match &self.shelf {
            Shelf::Folder { path, .. } => Ok(files(path)?.into_iter().map(|(entry, _)| entry).collect()),
            Shelf::Memory(profiles) => {
                let entry = |(at, (name, _)): (usize, &(String, _))| Entry {
                    id: at.to_string(),
                    name: name.clone(),
                    detail: String::new(),
                };
                Ok(lock(profiles).iter().enumerate().map(entry).collect())
            }
        }
    }

    /// The id of the profile to show when none was chosen: the last one in memory, none of a folder.
    pub(crate) fn first(&self) -> Option<String> {
        match &self.shelf {
            Shelf::Folder { .. } => None,
            Shelf::Memory(profiles) => lock(profiles).len().checked_sub(1).map(|at| at.to_string()),
        }
    }

    /// Opens a profile by an id that [`Source::entries`] gave.
    pub(crate) fn open(&self, id: &str) -> Result<(String, Arc<Profile>), Error> {
        let missing = || Error::not_found("there is no such profile any more; choose another one");
        match &self.shelf {
            Shelf::Folder { path, open } => {
                // The id is looked up in the folder's own listing: no part of a request becomes a path.
                let found = files(path)?.into_iter().find(|(entry, _)| entry.id == id);
                let (entry, file) = found.ok_or_else(missing)?;
                let profile = open(&file).map_err(|message| Error::new(ErrorKind::Unreadable, message))?;
                Ok((entry.name, Arc::new(profile)))
            }
            Shelf::Memory(profiles) => {
                let at: usize = id.parse().map_err(|_| missing())?;
                let profiles = lock(profiles);
                let (name, profile) = profiles.get(at).ok_or_else(missing)?;
                Ok((name.clone(), Arc::clone(profile)))
            }
        }
    }

    /// Takes a profile of the live service and puts it on the shelf.
    pub(crate) fn take(&self, seconds: u32) -> Result<Entry, Error> {
        let (Some(take), Shelf::Memory(profiles)) = (&self.take, &self.shelf) else {
            return Err(Error::bad_request("this is no live service: there is nothing to take a profile of"));
        };
        let taken = take.take(seconds).map_err(|message| Error::new(ErrorKind::Unreadable, message))?;
        let mut profiles = lock(profiles);
        profiles.push((taken.name.clone(), Arc::new(taken.profile)));
        Ok(Entry { id: (profiles.len() - 1).to_string(), name: taken.name, detail: String::new() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plain files of a folder, by name. Links are not followed out of it.
fn files(folder: &Path) -> Result<Vec<(Entry, PathBuf)>, Error> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let Ok(about) = file.metadata() else { continue };
        if !about.is_file() || name.starts_with('.') {
            continue;
        }
        let detail = format!("{} kB", about.len().div_ceil(1024));
        found.push((Entry { id: name.clone(), name, detail }, file.path()));
    }
    found.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    Ok(found)
}
