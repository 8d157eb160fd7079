//! Where the library is stored while programs load it.
//!
//! A program that outlives its recording, such as a daemon or a build server, still has the library's path in its
//! environment and loads it into everything it starts. So the path must refer to the same library forever: it is in a
//! folder that only this user can write to, like every folder above it; its name contains a hash of its content; and it
//! is never removed or changed. A recording leaves nothing else behind.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Library;
use super::private::{self, Others};
use crate::sys::files;
use crate::{Error, ErrorKind, Result};

/// Everyone may load it: children of a recording may run as other users.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Puts the library where programs can load it, unless it exists already. Returns its path.
pub(super) fn install(library: Library) -> Result<PathBuf> {
    if library.bytes.is_empty() {
        let message = "this flamelet was built without its preloaded library (a static or a checking build); \
                       build it for a target with shared libraries, such as x86_64-unknown-linux-gnu";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut refused = Vec::new();
    for folder in folders() {
        match install_in(&folder, library) {
            Ok(path) => return Ok(path),
            Err(why) => refused.push(why),
        }
    }
    let message = format!(
        "no folder for the preloaded library that only you can write to: {}; set XDG_CACHE_HOME to a folder \
         that is not mounted noexec, without spaces or colons in its path",
        if refused.is_empty() {
            "neither HOME nor XDG_CACHE_HOME is set".to_owned()
        } else {
            refused.join("; ")
        }
    );
    Err(Error::new(ErrorKind::Io, message))
}

/// Root's library is where other users can read it. Root does not use other users' caches.
fn folders() -> Vec<PathBuf> {
    let root = files::is_root().then(|| PathBuf::from("/var/cache"));
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    root.into_iter().chain(cache).collect()
}

fn install_in(cache: &Path, library: Library) -> std::result::Result<PathBuf, String> {
    let folder = cache.join("flamelet");
    let name = folder.to_string_lossy();
    if !folder.is_absolute() || name.contains([' ', ':']) {
        return Err(format!("{name}: the path must be absolute, without spaces or colons"));
    }
    let failed = |error: io::Error| format!("{name}: {error}");
    make_all(&folder).map_err(failed)?;
    if let Some(why) = private::weakness(&folder, Others::Nothing) {
        return Err(why);
    }
    if files::is_noexec(&folder) {
        return Err(format!("{name}: its file system is mounted noexec"));
    }
    put_into(&folder, library).map_err(failed)
}

/// Writes the library into its folder, unless it exists already.
fn put_into(folder: &Path, library: Library) -> io::Result<PathBuf> {
    let path = folder.join(file_name(library));
    if !is_there(&path, library) {
        private::put_file(&path, library.bytes, FILE_MODE)?;
    }
    Ok(path)
}

/// Creates the folder and any missing folders above it.
fn make_all(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_all(parent)?;
    }
    match private::make_folder(folder, FOLDER_MODE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn file_name(library: Library) -> String {
    let mut hasher = DefaultHasher::new();
    library.bytes.hash(&mut hasher);
    let (stem, ending) = library.name.rsplit_once('.').unwrap_or((library.name, "so"));
    format!("{stem}-{:016x}.{ending}", hasher.finish())
}

fn is_there(path: &Path, library: Library) -> bool {
    let (user, _) = files::own_ids();
    let is_ours =
        private::open(path).is_ok_and(|(_, found)| found.uid() == user && found.mode() & 0o7777 == FILE_MODE);
    is_ours && private::read(path, library.bytes.len() as u64).is_ok_and(|bytes| bytes == library.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const ONE: Library = Library { bytes: b"one", name: "libx.so" };
    const TWO: Library = Library { bytes: b"two", name: "libx.so" };

    #[test]
    fn a_library_is_installed_once_and_what_is_not_it_is_replaced() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a/b");
        make_all(&folder).expect("ours");
        let path = put_into(&folder, ONE).expect("new");
        let first = path.metadata().expect("there").ino();
        assert_eq!(put_into(&folder, ONE).expect("there"), path);
        assert_eq!(path.metadata().expect("there").ino(), first, "not written again");
        assert_ne!(put_into(&folder, TWO).expect("beside it"), path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("ours");
        std::fs::write(&path, "evil").expect("ours");
        put_into(&folder, ONE).expect("again");
        assert_eq!(std::fs::read(&path).expect("there"), b"one");
        assert_eq!(path.metadata().expect("there").mode() & 0o7777, FILE_MODE);
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let open = tempfile::tempdir().expect("a folder in the temporary folder");
        let why = install_in(open.path(), ONE).expect_err("/tmp is writable by everybody");
        assert!(why.contains("writable by others"), "{why}");
        let why = install_in(Path::new("relative"), ONE).expect_err("relative");
        assert!(why.contains("must be absolute"), "{why}");
    }
}
