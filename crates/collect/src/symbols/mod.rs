//! Symbols of builds: uploaded or fetched once, kept in the store under `symbols/BUILD_ID`, and looked up when profiles are read.

pub(crate) mod debuginfod;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flamelet_profile::{Error, ErrorKind, Profile, Result};
use flamelet_symbol::buildid::{self, BuildId};
use flamelet_symbol::locate::Search;
use flamelet_symbol::symbolize::{SymbolizeOptions, symbolize_profile};

use crate::lock::lock;
use crate::names::Names;
use crate::outside::Outside;
use crate::store::Store;
use crate::store::disk::{make_folder, remove_all, write_new};
use crate::symbols::debuginfod::Debuginfod;

const FOLDER: &str = "symbols";
/// The most builds whose files a store keeps.
const MOST_BUILDS: usize = 2000;
/// The most bytes of their files.
const MOST_BYTES: u64 = 32 << 30;
/// The longest file that is read.
const MAX_FILE: u64 = 1 << 30;
/// Files of other machines that are copied to this disk, in bytes, and builds that one profile looks up.
const MOST_COPIED: u64 = 2 << 30;
const MOST_OF_PROFILE: usize = 64;
/// A profile with more mappings is left without these names.
const MOST_MAPPINGS: usize = 500;
/// How long a store is assumed to have no symbols of a build after they were not found there.
const BELIEVED: Duration = Duration::from_secs(60);
/// What looking up the names of one file may take, and of all files of a profile: whoever sends profiles and symbols decides how
/// many there are.
const LIMITS: flamelet_symbol::Limits =
    flamelet_symbol::Limits { memory: 256 << 20, time: Duration::from_secs(20), held: 64 << 20 };

/// The symbols in a store.
#[derive(Clone, Debug)]
pub(crate) struct Symbols {
    store: Arc<dyn Store>,
    copies: Arc<Mutex<Copies>>,
    /// Where to request builds that the store does not have.
    pub(crate) elsewhere: Arc<Debuginfod>,
}

/// Copies of files of a store that is not on this disk.
#[derive(Debug, Default)]
struct Copies {
    /// Removed at the end.
    folder: Option<PathBuf>,
    bytes: u64,
    /// Builds that were not there, and when that was seen.
    missing: HashMap<String, Instant>,
}

impl Drop for Copies {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            remove_all(folder);
        }
    }
}

impl Symbols {
    /// Takes the symbols of a store.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, copies: Arc::default(), elsewhere: Arc::default() }
    }

    /// Returns whether the store wants the file of a build, and why not.
    pub(crate) fn wants(&self, id: &str) -> Result<(bool, &'static str)> {
        let id = checked(id)?;
        let listing = self.store.list(FOLDER)?;
        let builds = listing.files;
        match builds.binary_search(&id).is_ok() || builds.contains(&id) {
            true => Ok((false, "the symbols of this build are there already")),
            false if builds.len() >= MOST_BUILDS => Err(Error::new(
                ErrorKind::Busy,
                format!("there are symbols of {MOST_BUILDS} builds; remove old ones from {FOLDER}/"),
            )),
            false if listing.bytes >= MOST_BYTES => Err(Error::new(
                ErrorKind::Busy,
                format!("there are {} GiB of symbols; remove old ones from {FOLDER}/", MOST_BYTES >> 30),
            )),
            false => Ok((true, "")),
        }
    }

    /// Keeps the file of a build, after checking its build id.
    pub(crate) fn put(&self, id: &str, file: &[u8]) -> Result<()> {
        let id = checked(id)?;
        let own = buildid::of_bytes(file)
            .map_err(|error| Error::invalid(format!("the file is not an ELF file: {error}")))?;
        if own.map(|own| own.to_string()) != Some(id.clone()) {
            return Err(Error::invalid(format!("the file does not have the build id {id}")));
        }
        if self.wants(&id)?.0 {
            self.store.create(&path_of(&id), file)?;
            lock(&self.copies).missing.remove(&id);
        }
        Ok(())
    }

    /// Asks for the symbols of the builds of a profile that has no names for them.
    pub(crate) fn want(&self, profile: &Profile) {
        if self.elsewhere.is_on() {
            builds_without_names(profile).iter().for_each(|id| self.elsewhere.want(id));
        }
    }

    /// Asks for the next build that is wanted; its file has at most `most` bytes. Returns whether there was one.
    pub(crate) fn fetch(&self, outside: &dyn Outside, most: usize) -> bool {
        let Some(id) = self.elsewhere.next() else { return false };
        // It may have been sent in the meantime, and there may be no room for more.
        if matches!(self.wants(&id), Ok((true, _))) {
            self.elsewhere.fetch(&id, outside, most, &|file| self.put(&id, file));
        }
        true
    }

    /// Looks up the names that a profile does not have, as far as there are symbols of its builds.
    pub(crate) fn add_names(&self, profile: &mut Profile) {
        let files = self.files(profile, LIMITS.time);
        // Each mapping is looked up by itself, and a profile may name a build by any number of files.
        if profile.mappings().len() > MOST_MAPPINGS {
            return;
        }
        // The last one: to make room, the folder of copies may have been replaced meanwhile.
        let Some(folder) = files.last().and_then(|file| file.parent()) else { return };
        // The one binary that a person names also has the addresses that are in no file; one of a store does not.
        let files = [&*files, &files[..1]].concat();
        // Nothing but these files is opened, whatever the profile says.
        let only_below = Some(vec![folder.to_owned()]);
        let search = Search { only_below, debug_folders: Vec::new(), binaries: files, ..Search::default() };
        let (limits, together) = (LIMITS, Some(LIMITS));
        let options = SymbolizeOptions { search, limits, together, ..SymbolizeOptions::default() };
        symbolize_profile(profile, &options);
    }

    /// Returns the files with the symbols of a profile's builds, as far as they are on this disk after about this time: files
    /// of a bucket are copied.
    fn files(&self, profile: &Profile, most: Duration) -> Vec<PathBuf> {
        let (start, mut files) = (Instant::now(), Vec::new());
        for id in builds_without_names(profile) {
            if start.elapsed() >= most {
                break;
            }
            match self.file(&id) {
                Some(file) => files.push(file),
                None => self.elsewhere.want(&id),
            }
        }
        files
    }

    /// Returns the file with the symbols of a build, on this disk.
    fn file(&self, id: &str) -> Option<PathBuf> {
        if let Some(local) = self.store.local(&path_of(id)) {
            return Some(local).filter(|path| path.is_file());
        }
        let mut copies = lock(&self.copies);
        if let Some(known) =
            copies.folder.as_ref().map(|folder| folder.join(id)).filter(|path| path.is_file())
        {
            return Some(known);
        }
        if copies.missing.get(id).is_some_and(|since| since.elapsed() < BELIEVED) {
            return None;
        }
        match self.store.get(&path_of(id), MAX_FILE) {
            Ok(bytes) => copies.keep(id, &bytes).ok(),
            Err(_) => {
                if copies.missing.len() > MOST_BUILDS {
                    copies.missing.clear();
                }
                copies.missing.insert(id.to_owned(), Instant::now());
                None
            }
        }
    }
}

impl Copies {
    fn keep(&mut self, id: &str, bytes: &[u8]) -> Result<PathBuf> {
        if self.bytes.saturating_add(bytes.len() as u64) > MOST_COPIED
            && let Some(folder) = self.folder.take()
        {
            remove_all(&folder);
            self.bytes = 0;
        }
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => {
                let folder = std::env::temp_dir().join(format!("flamelet-symbols-{}", Names::new().id()));
                make_folder(&folder)?;
                self.folder.insert(folder).clone()
            }
        };
        let path = folder.join(id);
        write_new(&path, bytes).map_err(|error| Error::of_file(&path, &error))?;
        self.bytes += bytes.len() as u64;
        Ok(path)
    }
}

/// Returns the build ids of the files that have code without a name in a profile.
fn builds_without_names(profile: &Profile) -> BTreeSet<String> {
    let mut builds = BTreeSet::new();
    for location in profile.locations() {
        if builds.len() >= MOST_OF_PROFILE {
            break;
        }
        let Some(mapping) = location.mapping else { continue };
        if location.address == 0 || !profile.lines_of(location).is_empty() {
            continue;
        }
        builds.extend(checked(profile.string(profile.mapping(mapping).build_id)).ok());
    }
    builds
}

/// Returns a build id as files are named by it: in lower case, and not of any length.
fn checked(id: &str) -> Result<String> {
    let id = Some(id).filter(|id| (8..=128).contains(&id.len())).and_then(BuildId::from_hex);
    id.map(|id| id.to_string())
        .ok_or_else(|| Error::invalid("the build id is not 4 to 64 bytes in hexadecimal"))
}

fn path_of(id: &str) -> String {
    format!("{FOLDER}/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BlockFolder;

    #[test]
    fn files_are_copied_for_a_profile_as_long_as_there_is_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("created");
        let mut builder = flamelet_profile::ProfileBuilder::new(&[("samples", "count")]);
        for (number, id) in ["aaaaaaaa", "bbbbbbbb"].into_iter().enumerate() {
            store.create(&path_of(id), b"symbols").expect("written");
            let start = 0x1000 * (number as u64 + 1);
            let mapping = builder.file_mapping(start..start + 0x1000, 0, "/srv/program", id);
            let location = builder.address(Some(mapping), start + 8);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[1]);
        }
        let (profile, symbols) = (builder.finish(), Symbols::new(Arc::new(store)));
        assert_eq!(symbols.files(&profile, Duration::MAX).len(), 2);
        assert!(symbols.files(&profile, Duration::ZERO).is_empty());
    }

    #[test]
    fn symbols_are_refused_when_there_are_too_many_bytes_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("created");
        store.create(&path_of("aaaaaaaa"), b"one").expect("written");
        let symbols = Symbols::new(Arc::new(store));
        assert_eq!(symbols.wants("bbbbbbbb").expect("room"), (true, ""));
        let file = std::fs::OpenOptions::new().write(true).open(folder.path().join(path_of("aaaaaaaa")));
        file.expect("there").set_len(MOST_BYTES).expect("a file with a hole");
        let error = symbols.wants("bbbbbbbb").expect_err("full");
        assert_eq!((error.kind(), error.to_string().contains("32 GiB")), (ErrorKind::Busy, true), "{error}");
        assert!(!symbols.wants("aaaaaaaa").expect("known").0, "what is there need not be sent");
    }
}
