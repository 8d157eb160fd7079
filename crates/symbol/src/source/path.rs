//! Finds source files, and decides which of them may be shown.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use flamelet_profile::{Profile, open_regular, real_path};

use crate::symbolize::{MappingSummary, Symbolizer};
use crate::{Error, ErrorKind, Result, buildid};

/// Where source files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePath {
    /// Folders to search, in order; see [`SourcePath::find`].
    pub folders: Vec<PathBuf>,
    /// Prefixes to remove from the names that the compiler recorded, before the folders are searched.
    pub trim: Vec<String>,
    /// Which files may be read.
    pub reach: Reach,
}

/// Which files may be read because a profile names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Any file: for a report to a user who may read them anyway.
    #[default]
    Anywhere,
    /// Files below the folders of the [`SourcePath`], the sources of installed toolchains, and the files in this
    /// list, which [`confirmed_sources`] makes: for a server that shows profiles from others to others.
    Confined(BTreeSet<String>),
}

/// A path where a file may be, and whether a confirmed name is enough to read it.
struct Candidate {
    path: PathBuf,
    is_confirmed: bool,
}

impl SourcePath {
    /// Parses the values of `--source-path` and `--trim-path`, both lists separated by colons. Without folders, the
    /// current one is searched.
    pub fn from_arguments(source_path: &str, trim_path: &str) -> Self {
        let parts = |text: &str| text.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let folders: Vec<String> = parts(source_path);
        let folders = if folders.is_empty() { vec![".".to_owned()] } else { folders };
        let folders = folders.into_iter().map(PathBuf::from).collect();
        Self { folders, trim: parts(trim_path), reach: Reach::Anywhere }
    }

    /// Finds the file that the compiler called `name`.
    ///
    /// After removing a prefix of [`SourcePath`]'s `trim`, the file is searched for at its own absolute path; then
    /// under each folder and each of the folder's parents; then under each folder with more and more of its leading
    /// components removed, so that a profile from another machine's build folder finds its files in a checkout. The
    /// standard library's files (`/rustc/…`) are also searched for in installed toolchains. Files outside
    /// [`SourcePath::reach`] are not found.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.open(name).ok().map(|(path, _)| path)
    }

    /// Opens the file that [`SourcePath::find`] finds.
    pub(crate) fn open(&self, name: &str) -> Result<(PathBuf, File)> {
        if name.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the profile does not name the source file"));
        }
        let roots = self.roots();
        let opened = self.candidates(name, &roots).into_iter().find_map(|candidate| {
            let file = open_regular(&candidate.path).ok()?;
            self.allows(&candidate, &file, &roots).then_some((candidate.path, file))
        });
        opened.ok_or_else(|| self.missing(name))
    }

    /// Uses the same message for a file that does not exist and for one that may not be shown, so as not to reveal
    /// which files exist.
    fn missing(&self, name: &str) -> Error {
        let message = match self.reach {
            Reach::Anywhere => format!("could not find {name} in the source path"),
            Reach::Confined(_) => format!(
                "{name}: not found, or not shown: no binary of this machine with the profile's build id confirms that it \
                 is a source file, and it is not below the source path; add its folder with --source-path"
            ),
        };
        Error::new(ErrorKind::NotFound, message)
    }

    /// Returns the folders, resolved on the disk. When confined, `/` is not one of them, even if it is the current
    /// folder.
    fn roots(&self) -> Vec<PathBuf> {
        let folders = self.folders.iter().filter_map(|folder| folder.canonicalize().ok());
        folders.filter(|folder| self.reach == Reach::Anywhere || folder.parent().is_some()).collect()
    }

    fn candidates(&self, name: &str, roots: &[PathBuf]) -> Vec<Candidate> {
        let is_confirmed = matches!(&self.reach, Reach::Confined(confirmed) if confirmed.contains(name));
        let path = Path::new(self.trim(name));
        let own = path.is_absolute().then(|| Candidate { path: path.to_owned(), is_confirmed });
        let elsewhere = self.under_folders(path, roots).into_iter().chain(in_toolchains(name));
        let elsewhere = elsewhere.map(|path| Candidate { path, is_confirmed: false });
        own.into_iter().chain(elsewhere).collect()
    }

    fn trim<'n>(&self, name: &'n str) -> &'n str {
        let longest =
            self.trim.iter().filter(|prefix| name.starts_with(prefix.as_str())).map(String::len).max();
        let trimmed = &name[longest.unwrap_or(0)..];
        match longest {
            Some(_) => trimmed.trim_start_matches('/'),
            None => name
                .strip_prefix("/proc/self/cwd/./")
                .or(name.strip_prefix("/proc/self/cwd/"))
                .unwrap_or(name),
        }
    }

    fn under_folders(&self, path: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
        let parts: Vec<Component<'_>> =
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let part = |skipped: usize| -> PathBuf { parts[skipped..].iter().collect() };
        let whole = roots.iter().flat_map(|root| root.ancestors()).map(|folder| folder.join(part(0)));
        let shortened = (1..parts.len()).flat_map(|skipped| roots.iter().map(move |root| (root, skipped)));
        whole.chain(shortened.map(|(root, skipped)| root.join(part(skipped)))).collect()
    }

    /// Returns whether `file`, which was opened at the candidate's path, may be read.
    fn allows(&self, candidate: &Candidate, file: &File, roots: &[PathBuf]) -> bool {
        if self.reach == Reach::Anywhere {
            return true;
        }
        let Some(real) = real_path(file, &candidate.path) else { return false };
        let is_below_root = roots.iter().chain(&toolchains()).any(|root| is_source_below(root, &real));
        is_below_root || candidate.is_confirmed && is_plain(&candidate.path, &real)
    }
}

/// Returns whether a file is below a folder of sources, and not hidden there: `.ssh/id_rsa` and `.env` are not
/// sources.
fn is_source_below(root: &Path, file: &Path) -> bool {
    let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    file.strip_prefix(root).is_ok_and(|inside| !inside.components().any(is_hidden))
}

/// Returns whether `path` leads to the file at `real` without `..` and without being a link itself. Users arrange
/// their disks with links to folders, but a link to another file is not what a compiler has read.
fn is_plain(path: &Path, real: &Path) -> bool {
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let plain = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    !has_parent && plain.as_deref() == Some(real)
}

/// Returns the source folders of the installed toolchains.
fn toolchains() -> Vec<PathBuf> {
    let home = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".rustup")));
    let folders = home.and_then(|home| std::fs::read_dir(home.join("toolchains")).ok());
    let chains = folders.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sources: Vec<PathBuf> =
        chains.filter_map(|chain| chain.join("lib/rustlib/src/rust").canonicalize().ok()).collect();
    sources.sort();
    sources
}

/// Finds `/rustc/HASH/library/…` in the sources of the installed toolchains.
fn in_toolchains(name: &str) -> Vec<PathBuf> {
    let library = name.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/'));
    library.map_or(Vec::new(), |(_, path)| toolchains().iter().map(|chain| chain.join(path)).collect())
}

/// Returns the source files of the functions in `profile`, as named by the debug information of its own binaries: of
/// files that have the build id given in the profile, and that only the owner of this process or root can have put
/// there.
pub fn confirmed_sources(profile: &Profile, symbolizer: &mut Symbolizer) -> BTreeSet<String> {
    let mut named = profile.clone();
    named.relabel_locations(|_, _| Some(Vec::new()));
    let summary = symbolizer.symbolize_profile(&mut named);
    let is_confirmed =
        |mapping: &MappingSummary| mapping.sources.iter().all(|source| is_trusted(source, &mapping.build_id));
    let trusted: BTreeSet<String> =
        summary.mappings.into_iter().filter(is_confirmed).map(|mapping| mapping.file).collect();
    let is_of_trusted = |mapping| trusted.contains(named.string(named.mapping(mapping).filename));
    let locations = named.locations().iter().filter(|location| location.mapping.is_some_and(is_of_trusted));
    let functions = locations.flat_map(|location| named.lines_of(location)).filter_map(|line| line.function);
    let names = functions.map(|function| named.string(named.function(function).filename));
    names.flat_map(|name| [name.to_owned(), cleaned(name)]).collect()
}

/// Returns the path without `.` and `..`, as reports show it.
fn cleaned(name: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path.display().to_string()
}

fn is_trusted(source: &Path, build_id: &str) -> bool {
    let own = buildid::of_file(source).ok().flatten();
    own.is_some_and(|own| own.to_string().eq_ignore_ascii_case(build_id)) && is_ours(source)
}

#[cfg(unix)]
fn is_ours(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid());
    let own = owner("/proc/self".as_ref()).ok();
    owner(file).is_ok_and(|owner| owner == 0 || Some(owner) == own)
}

#[cfg(not(unix))]
fn is_ours(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimmed_prefixes() {
        let path = SourcePath::from_arguments("", "/build:/build/deep");
        assert_eq!(path.trim("/build/deep/src/a.rs"), "src/a.rs");
        assert_eq!(path.trim("/build/src/a.rs"), "src/a.rs");
        assert_eq!(path.trim("/other/a.rs"), "/other/a.rs");
        assert_eq!(path.trim("/proc/self/cwd/a.rs"), "a.rs");
        assert_eq!(path.folders, [PathBuf::from(".")]);
    }

    /// Creates a folder with `inside/a.rs`, `secret`, and links from one to the other.
    fn arranged() -> (tempfile::TempDir, SourcePath) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inside")).expect("made");
        std::fs::write(at("inside/a.rs"), "fn a() {}\n").expect("written");
        std::fs::write(at("secret"), "s3cret\n").expect("written");
        std::fs::create_dir(at("inside/.ssh")).expect("made");
        std::fs::write(at("inside/.ssh/key"), "s3cret\n").expect("written");
        std::os::unix::fs::symlink(at("secret"), at("inside/link.rs")).expect("made");
        std::os::unix::fs::symlink(folder.path(), at("inside/up")).expect("made");
        let reach = Reach::Confined(BTreeSet::new());
        let path = SourcePath { folders: vec![at("inside")], trim: Vec::new(), reach };
        (folder, path)
    }

    #[test]
    fn only_what_is_below_the_folders_is_found() {
        let (folder, path) = arranged();
        let name = |name: &str| folder.path().join(name).display().to_string();
        assert!(path.find(&name("inside/a.rs")).is_some() && path.find("/build/7/a.rs").is_some());
        let outside =
            ["secret", "inside/link.rs", "inside/up/secret", "inside/../secret", "inside/.ssh/key"].map(name);
        let anywhere = SourcePath { reach: Reach::Anywhere, ..path.clone() };
        for outside in outside.iter().map(String::as_str).chain(["up/secret", "../secret", "/etc/passwd"]) {
            assert_eq!(path.find(outside), None, "{outside}");
            let error = path.open(outside).expect_err("refused").to_string();
            assert!(error.contains("--source-path"), "{error}");
            assert!(anywhere.find(outside).is_some() || outside.starts_with(".."), "{outside}");
        }
    }

    #[test]
    fn paths_are_cleaned() {
        assert_eq!(cleaned("/build/./src/../lib/a.c"), "/build/lib/a.c");
        assert_eq!(cleaned("src/a.c"), "src/a.c");
    }

    #[test]
    fn the_whole_machine_is_no_source() {
        let (folder, path) = arranged();
        let path = SourcePath { folders: vec!["/".into()], ..path };
        assert_eq!(path.find(&folder.path().join("secret").display().to_string()), None);
    }

    #[test]
    fn what_a_binary_confirms_is_found_if_it_is_no_link() {
        let (folder, path) = arranged();
        let name = |name: &str| folder.path().join(name).display().to_string();
        let confirmed = ["secret", "inside/link.rs", "inside/../secret"].map(name);
        let path = SourcePath { reach: Reach::Confined(confirmed.iter().cloned().collect()), ..path };
        assert!(path.find(&confirmed[0]).is_some());
        assert_eq!(confirmed[1..].iter().filter_map(|name| path.find(name)).next(), None);
    }
}
