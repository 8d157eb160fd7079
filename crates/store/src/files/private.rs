//! Files and folders that other users of the machine can neither read nor put something else in place of.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::Path;

use crate::files::sys;

/// Creates a file for appending that only this user can read and write. Fails if anything exists there, a link too.
pub fn create(path: &Path) -> io::Result<File> {
    sys::create(path)
}

/// Opens a regular file for reading. Fails, without waiting, if it is a link, a pipe, a device or a folder.
pub fn open(path: &Path) -> io::Result<File> {
    sys::open_regular(path)
}

/// Creates a folder, and those above it, that only this user can read and write. If it exists already, it must be a folder
/// of this user or of root, and not a link.
pub fn create_folder(path: &Path) -> io::Result<()> {
    build(path)?;
    check(&path.symlink_metadata()?)
}

/// Like [`create_folder`], for a folder that a person has named: it may be a link.
pub fn create_named_folder(path: &Path) -> io::Result<()> {
    build(path)?;
    check(&path.metadata()?)
}

fn build(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    let denied = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match () {
        () if !found.is_dir() => denied("is not a folder"),
        () if ![sys::own_user(), 0].contains(&sys::owner(found)) => denied("belongs to another user"),
        () => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_and_folders_are_private_and_links_are_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        create_folder(&path("a/b")).expect("created");
        create_folder(&path("a/b")).expect("there already");
        drop(create(&path("a/b/file")).expect("created"));
        let mode = |name: &str| path(name).metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("a/b"), mode("a/b/file")), (0o700, 0o700, 0o600));
        symlink(path("a"), path("link")).expect("linked");
        symlink(path("a/b/file"), path("file")).expect("linked");
        assert!(create_folder(&path("link")).is_err() && create_named_folder(&path("link")).is_ok());
        assert!(create_folder(&path("a/b/file")).is_err());
        assert!(create(&path("file")).is_err() && open(&path("file")).is_err() && open(&path("a")).is_err());
        assert!(open(&path("a/b/file")).is_ok(), "an empty file is a file");
    }
}
