//! Finds the files with symbols, given a path and a build id.
//!
//! A file is the right one if it has the requested build id. If the profile or the file has none, a file at the right
//! path, or one of the right name that the user pointed at, is used with a warning. A file with another build id is
//! never used.
//!
//! The binary is searched for among the files and folders that the user named, then in `$PPROF_BINARY_PATH`, then at
//! its own path, then in perf's cache of the binaries that it has recorded. If it has no debug information, the debug
//! file is searched for in the named folders, in `.build-id` folders under the debug folders, in perf's cache, through
//! the binary's `.gnu_debuglink` (its checksum is verified), and finally, with the feature `debuginfod`, on the servers
//! in `DEBUGINFOD_URLS`.

#[cfg(feature = "debuginfod")]
mod debuginfod;
mod servers;

use std::path::{Path, PathBuf};

use flamelet_profile::is_below;
use object::Object;

use crate::buildid::BuildId;
use crate::elf::Elf;
use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::limits::Limits;
use crate::{ErrorKind, Result, elf};
pub use servers::Servers;

/// A folder with more files than this is not searched for a build id.
const MOST_FILES: usize = 4096;

/// A larger debug file is not read for its checksum. A program may name any file, also one that takes no room on disk and
/// hours to read.
const LARGEST_LINKED: u64 = 4 << 30;

/// The program that this process runs, even after its file was deleted.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Where to look.
#[derive(Clone, Debug)]
pub struct Search {
    /// Binaries and debug files that the user named.
    pub binaries: Vec<PathBuf>,
    /// Folders that the user named.
    pub folders: Vec<PathBuf>,
    /// Folders laid out like `/usr/lib/debug`.
    pub debug_folders: Vec<PathBuf>,
    /// The folder in which perf keeps copies of the binaries that it has recorded, by build id (`~/.debug`).
    pub perf_cache: Option<PathBuf>,
    /// A prefix for the paths of mappings: the root of a container, or of another machine's copy.
    pub root: Option<PathBuf>,
    /// The servers to ask for debug files, and how. Ignored without the feature `debuginfod`.
    pub servers: Servers,
    /// Open only files whose real path is below one of these folders, whatever a profile or a binary names: for
    /// profiles that come from others. The running kernel's symbols are not read either.
    pub only_below: Option<Vec<PathBuf>>,
}

impl Default for Search {
    /// Uses only the system's debug folder; the environment is not read.
    fn default() -> Self {
        Self {
            binaries: Vec::new(),
            folders: Vec::new(),
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            perf_cache: None,
            root: None,
            servers: Servers::default(),
            only_below: None,
        }
    }
}

impl Search {
    /// Adds the settings of the environment: `PPROF_BINARY_PATH` (without it `~/pprof/binaries`, like
    /// `go tool pprof`), `PERF_BUILDID_DIR` (without it `~/.debug`, like `perf`), `DEBUGINFOD_URLS`,
    /// `DEBUGINFOD_TIMEOUT`, `XDG_CACHE_HOME`.
    pub fn from_environment() -> Self {
        let mut search = Self::default();
        let home = std::env::home_dir();
        match std::env::var_os("PPROF_BINARY_PATH") {
            Some(paths) => search.folders.extend(std::env::split_paths(&paths)),
            None => search.folders.extend(home.as_ref().map(|home| home.join("pprof/binaries"))),
        }
        search.folders.retain(|folder| !folder.as_os_str().is_empty());
        let perf_cache = std::env::var_os("PERF_BUILDID_DIR").filter(|folder| !folder.is_empty());
        search.perf_cache =
            perf_cache.map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(".debug")));
        let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let cache = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
        let timeout = std::env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|text| text.parse().ok());
        search.servers = Servers {
            urls: urls.split_whitespace().map(str::to_owned).collect(),
            cache: cache.or_else(|| home.map(|home| home.join(".cache"))).map(|cache| cache.join("flamelet")),
            timeout: timeout.map(std::time::Duration::from_secs),
        };
        search
    }

    pub(crate) fn may_open(&self, path: &Path) -> bool {
        self.only_below.as_ref().is_none_or(|folders| is_below(path, folders))
    }

    /// Finds the files for `wanted`.
    pub fn locate(&self, wanted: &WantedBinary<'_>) -> Located {
        let mut found = Located::default();
        self.locate_binary(wanted, &mut found);
        let needs_debug = found.binary.as_deref().is_none_or(|path| !has_debug_info(path));
        if needs_debug && found.debug.is_none() {
            self.locate_debug(wanted, &mut found);
        }
        self.locate_supplement(&mut found);
        if found.binary.is_none() && found.debug.is_none() && found.warnings.is_empty() {
            found.warnings.push(match wanted.build_id {
                "" => "no such file, and the profile has no build id to search for".to_owned(),
                id => format!("no file with the build id {id} was found"),
            });
        }
        found
    }

    fn locate_binary(&self, wanted: &WantedBinary<'_>, found: &mut Located) {
        let named: Vec<(PathBuf, Trust)> = self
            .binaries
            .iter()
            .map(|path| (path.clone(), Trust::Name))
            .chain(self.folders.iter().flat_map(|folder| in_folder(folder, wanted)))
            .filter(|(path, _)| self.may_open(path))
            .collect();
        // The binary and its debug file have the same id, and both are useful.
        for (path, _) in named.iter().filter(|(path, _)| wanted.is_exactly(path)) {
            found.take(path.clone());
        }
        if found.binary.is_some() {
            return;
        }
        let own_path = self.at_own_path(wanted, found);
        if found.debug.is_some() {
            found.binary = own_path;
            return;
        }
        let by_name = || {
            let same_name = named
                .iter()
                .filter(|(path, trust)| *trust == Trust::Name && path.file_name() == wanted.path.file_name());
            same_name.map(|(path, _)| path.clone()).find(|path| wanted.may_be(path))
        };
        let only_named = || {
            let [only] = &self.binaries[..] else { return None };
            (wanted.path.as_os_str().is_empty() && wanted.may_be(only)).then(|| only.clone())
        };
        if let Some(path) = by_name().or_else(only_named) {
            found.warnings.push(format!("found at {} by its name; the build id is unknown", path.display()));
            found.take(path);
        } else if let Some(path) = own_path {
            found.take(path);
        } else if let Some(path) = self.in_perf_cache(wanted, "elf") {
            found.warnings.clear();
            found.take(path);
        } else if wanted.is_exactly(Path::new(OWN_PROGRAM)) {
            // A service whose file was deleted, or replaced by the next release, still runs from the old file.
            found.warnings.clear();
            found.take(PathBuf::from(OWN_PROGRAM));
        }
    }

    /// Returns the file at the mapping's own path, unless it is another build.
    fn at_own_path(&self, wanted: &WantedBinary<'_>, found: &mut Located) -> Option<PathBuf> {
        // Empty names and names in brackets are not files.
        if wanted.path.as_os_str().is_empty() || wanted.path.as_os_str().as_encoded_bytes()[0] == b'[' {
            return None;
        }
        let path = match &self.root {
            Some(root) => root.join(wanted.path.strip_prefix("/").unwrap_or(wanted.path)),
            None => wanted.path.to_owned(),
        };
        if !self.may_open(&path) {
            return None;
        }
        match build_id_of(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                found.warnings.push(error.to_string());
                None
            }
            Ok(Some(id)) if wanted.conflicts_with(&id) => {
                found
                    .warnings
                    .push(format!("{} is another build now (its build id is {id})", path.display()));
                None
            }
            Ok(_) => Some(path),
        }
    }

    /// Returns the file `name` that perf has kept for the build id: `.build-id/ab/cdef…` is a link to a folder.
    fn in_perf_cache(&self, wanted: &WantedBinary<'_>, name: &str) -> Option<PathBuf> {
        let id = BuildId::from_hex(wanted.build_id)?;
        let link = PathBuf::from(id.debug_path()).with_extension("");
        let folder = self.perf_cache.as_ref()?.join(".build-id").join(link);
        Some(folder.join(name)).filter(|path| self.may_open(path) && has_id(path, &id))
    }

    fn locate_debug(&self, wanted: &WantedBinary<'_>, found: &mut Located) {
        let own_id = found.binary.as_deref().and_then(|path| build_id_of(path).ok().flatten());
        let id = BuildId::from_hex(wanted.build_id).or(own_id);
        found.debug = id
            .as_ref()
            .and_then(|id| self.debug_by_id(id))
            .or_else(|| {
                let kept = ["debug", "elf"].into_iter().filter_map(|name| self.in_perf_cache(wanted, name));
                kept.into_iter().find(|path| has_debug_info(path))
            })
            .or_else(|| self.debug_by_link(found))
            .or_else(|| self.debug_by_server(id.as_ref()?, found));
    }

    fn debug_by_id(&self, id: &BuildId) -> Option<PathBuf> {
        let name = id.debug_path();
        let system = self.debug_folders.iter().map(|folder| folder.join(".build-id").join(&name));
        let named =
            self.folders.iter().flat_map(|folder| [folder.join(".build-id").join(&name), folder.join(&name)]);
        let mut candidates = named.chain(system).filter(|path| self.may_open(path));
        candidates.find(|path| has_id(path, id) && has_debug_info(path))
    }

    fn debug_by_link(&self, found: &mut Located) -> Option<PathBuf> {
        let binary = found.binary.as_deref()?;
        let image = image_of(binary)?;
        let file = elf::parse(&image).ok()?;
        let (name, checksum) = file.gnu_debuglink().ok()??;
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let folder = binary.parent()?;
        let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let system = self
            .debug_folders
            .iter()
            .map(|debug| debug.join(absolute.strip_prefix("/").unwrap_or(&absolute)).join(name));
        let named = self.folders.iter().map(|folder| folder.join(name));
        let candidates = [folder.join(name), folder.join(".debug").join(name)];
        let candidates = candidates.into_iter().chain(system).chain(named);
        for path in candidates.filter(|path| self.may_open(path)) {
            let debug = image_of(&path);
            if debug.as_ref().is_some_and(|debug| debug.size() > LARGEST_LINKED) {
                let (path, most) = (path.display(), LARGEST_LINKED >> 30);
                found.warnings.push(format!("{path} is larger than {most} GiB, and was not checked"));
                continue;
            }
            match debug.map(|debug| crc32(&debug)) {
                Some(Some(sum)) if sum == checksum => return Some(path),
                Some(_) if path != binary => found
                    .warnings
                    .push(format!("{} is not the debug file of this build (wrong checksum)", path.display())),
                _ => {}
            }
        }
        None
    }

    #[cfg(feature = "debuginfod")]
    fn debug_by_server(&self, id: &BuildId, found: &mut Located) -> Option<PathBuf> {
        match debuginfod::fetch(&self.servers, id) {
            Ok(path) => path,
            Err(error) => {
                found.warnings.push(error.to_string());
                None
            }
        }
    }

    #[cfg(not(feature = "debuginfod"))]
    fn debug_by_server(&self, _: &BuildId, _: &mut Located) -> Option<PathBuf> {
        None
    }

    /// Finds the file that dwz split off the debug information, which several packages share.
    fn locate_supplement(&self, found: &mut Located) {
        let Some(user) = found.debug.as_ref().or(found.binary.as_ref()) else { return };
        let Some(image) = image_of(user) else { return };
        let Ok(file) = elf::parse(&image) else { return };
        // A stripped binary keeps the link, and has nothing that refers to the shared file.
        if !elf::has_debug_info(&file) {
            return;
        }
        let Ok(Some((name, id))) = file.gnu_debugaltlink() else { return };
        let Some(id) = BuildId::from_bytes(id) else { return };
        let linked = std::str::from_utf8(name).ok().map(|name| user.parent().unwrap_or(user).join(name));
        let by_link = linked.filter(|path| self.may_open(path) && has_id(path, &id));
        let name = id.debug_path();
        let mut by_id = self
            .debug_folders
            .iter()
            .map(|folder| folder.join(".build-id").join(&name))
            .chain(self.folders.iter().map(|folder| folder.join(".build-id").join(&name)));
        found.supplement = by_link.or_else(|| by_id.find(|path| self.may_open(path) && has_id(path, &id)));
        if found.supplement.is_none() {
            found
                .warnings
                .push(format!("some names are in a debug file that several packages share (build id {id}), which is not installed"));
        }
    }
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct WantedBinary<'a> {
    /// The path that the profiled process had mapped.
    pub path: &'a Path,
    /// The build id in hexadecimal, empty if unknown.
    pub build_id: &'a str,
}

impl WantedBinary<'_> {
    fn conflicts_with(&self, id: &BuildId) -> bool {
        !self.build_id.is_empty() && !self.build_id.eq_ignore_ascii_case(&id.to_string())
    }

    /// Returns whether the file has the build id.
    fn is_exactly(&self, path: &Path) -> bool {
        BuildId::from_hex(self.build_id).is_some_and(|id| has_id(path, &id))
    }

    /// Returns whether the file is an ELF file and nothing rules it out.
    fn may_be(&self, path: &Path) -> bool {
        match build_id_of(path) {
            Ok(Some(id)) => !self.conflicts_with(&id),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The binary itself.
    pub binary: Option<PathBuf>,
    /// The file with its debug information, if that is a separate one.
    pub debug: Option<PathBuf>,
    /// The file that the debug information shares with others (dwz).
    pub supplement: Option<PathBuf>,
    /// Warnings for the user, a line each.
    pub warnings: Vec<String>,
}

impl Located {
    /// Takes the file at `path` as a binary or a debug file, depending on its content, unless there is one already: a
    /// debug file keeps the headers of its binary but not its code.
    fn take(&mut self, path: PathBuf) {
        let is_debug_file = is_elf_that(&path, |file| elf::has_debug_info(file) && lacks_code(file));
        if is_debug_file {
            self.debug.get_or_insert(path)
        } else {
            self.binary.get_or_insert(path)
        };
    }
}

fn lacks_code(file: &Elf<'_>) -> bool {
    use object::ObjectSection;
    file.section_by_name(".text").is_some_and(|text| text.file_range().is_none_or(|(_, size)| size == 0))
}

/// Why a candidate may be the right one if it has no build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// It has the right name.
    Name,
    /// No other reason: only the build id counts.
    IdOnly,
}

/// Returns the candidates in a folder: where `go tool pprof` looks, and every file in it.
fn in_folder(folder: &Path, wanted: &WantedBinary<'_>) -> Vec<(PathBuf, Trust)> {
    let mut candidates = Vec::new();
    let name = wanted.path.file_name();
    if let Some(id) = BuildId::from_hex(wanted.build_id) {
        let by_id = folder.join(id.to_string());
        candidates.extend(name.map(|name| (by_id.join(name), Trust::IdOnly)));
        candidates.extend(files_in(&by_id).map(|path| (path, Trust::IdOnly)));
        candidates.push((folder.join(id.debug_path()), Trust::IdOnly));
        candidates.push((folder.join(".build-id").join(id.debug_path()), Trust::IdOnly));
    }
    if let Ok(relative) = wanted.path.strip_prefix("/") {
        candidates.push((folder.join(relative), Trust::Name));
    }
    candidates.extend(name.map(|name| (folder.join(name), Trust::Name)));
    if !wanted.build_id.is_empty() {
        candidates.extend(files_in(folder).map(|path| (path, Trust::IdOnly)));
    }
    candidates
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_FILES);
    entries.map(|entry| entry.path()).filter(|path| path.is_file())
}

fn build_id_of(path: &Path) -> Result<Option<BuildId>> {
    crate::buildid::of_file(path)
}

fn has_id(path: &Path, id: &BuildId) -> bool {
    path.is_file() && build_id_of(path).is_ok_and(|own| own.as_ref() == Some(id))
}

fn has_debug_info(path: &Path) -> bool {
    is_elf_that(path, elf::has_debug_info)
}

/// Opens the file at `path`, to read its headers.
fn image_of(path: &Path) -> Option<Image<'static>> {
    Some(Image::new(Bytes::open(path).ok()?, Limits::SERVICE.memory))
}

fn is_elf_that(path: &Path, holds: impl FnOnce(&Elf<'_>) -> bool) -> bool {
    image_of(path).is_some_and(|image| elf::parse(&image).is_ok_and(|file| holds(&file)))
}

/// Returns the checksum for `.gnu_debuglink`; `None` if the file cannot be read to its end.
fn crc32(image: &Image<'_>) -> Option<u32> {
    let mut crc = flate2::CrcReader::new(image.stream(0..image.size()));
    std::io::copy(&mut crc, &mut std::io::sink()).ok()?;
    Some(crc.crc().sum())
}
