//! Folders that no other user can change, and files in them that are read without trusting them.
//!
//! A path is only as safe as every folder on it: a user who may rename one of them controls everything below.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::sys::files;

const ROOT_USER: u32 = 0;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// What users other than root and this one may change in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Nothing: a path below it means the same forever.
    Nothing,
    /// Anyone may add entries, but not rename or remove those of others, as in `/var/tmp`. A path below it means the
    /// same for as long as it exists.
    AddOnly,
}

/// Returns why `folder`, or a folder above it, does not keep others out; `None` if it does.
pub(super) fn weakness(folder: &Path, allowed: Others) -> Option<String> {
    let real = match folder.canonicalize() {
        Ok(real) => real,
        Err(error) => return Some(format!("{}: {error}", folder.display())),
    };
    real.ancestors().find_map(|folder| weakness_of_one(folder, allowed))
}

fn weakness_of_one(folder: &Path, allowed: Others) -> Option<String> {
    let name = folder.display();
    let found = match folder.symlink_metadata() {
        Ok(found) => found,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let (user, _) = files::own_ids();
    if found.uid() != ROOT_USER && found.uid() != user {
        return Some(format!("{name} belongs to another user"));
    }
    let is_sticky = found.mode() & STICKY != 0;
    let is_open = found.mode() & WRITABLE_BY_OTHERS != 0 && !(is_sticky && allowed == Others::AddOnly);
    is_open.then(|| match is_sticky {
        // It is meant to be, as `/tmp` is.
        true => format!("{name} is writable by others"),
        false => format!("{name} is writable by others; fix it with `chmod go-w {name}`"),
    })
}

/// Creates the folder `path` with exactly this mode. Fails if the path exists.
pub(super) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Writes `bytes` into the file `path` atomically: a reader sees either all of them or the previous content.
pub(super) fn put_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let part = sibling(path)?;
    let written = (|| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let mut file = options.open(&part)?;
        file.write_all(bytes)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(&part, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn sibling(path: &Path) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", files::random_name()?));
    Ok(path.with_file_name(name))
}

/// Opens a file for reading, whatever others may have put there: only a regular file with one name. Never waits, as a
/// pipe would, and never follows a link.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file with one link"));
    }
    Ok((file, found))
}

/// Opens a file like [`open`] and reads it, if it has at most `most` bytes.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, found) = open(path)?;
    if found.len() > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} bytes")));
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    // It may be growing.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_as_safe_as_all_above_it() {
        let outer = tempfile::tempdir().expect("a folder");
        let inner = outer.path().join("inner");
        make_folder(&inner, 0o755).expect("new");
        let set = |mode| {
            std::fs::set_permissions(outer.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
        };
        // The folders above belong to the machine; only those that this test created are checked.
        let judged = |allowed| {
            [&inner, &outer.path().to_owned()].into_iter().find_map(|folder| weakness_of_one(folder, allowed))
        };
        set(0o755);
        assert_eq!(judged(Others::Nothing), None);
        set(0o777);
        assert!(
            judged(Others::AddOnly).is_some_and(|why| why.contains("writable by others; fix it with `chmod"))
        );
        set(0o1777);
        assert_eq!(judged(Others::AddOnly), None);
        let why = judged(Others::Nothing).expect("it can be put there anew once it is gone");
        assert!(!why.contains("chmod"), "{why}: it is meant to be");
        assert!(weakness(&inner, Others::Nothing).is_some(), "what is above counts");
        assert!(weakness(Path::new("/no/such/folder"), Others::AddOnly).is_some());
    }

    #[test]
    fn only_regular_files_of_one_name_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").expect("ours");
        assert_eq!(read(&path("file"), 5).expect("regular"), b"12345");
        assert_eq!(read(&path("file"), 4).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        symlink(path("file"), path("link")).expect("ours");
        assert!(read(&path("link"), 5).is_err());
        symlink("/dev/zero", path("device")).expect("ours");
        assert!(read(&path("device"), 5).is_err());
        assert!(read(Path::new("/dev/zero"), 5).is_err());
        files::make_pipe(&path("pipe")).expect("ours");
        assert!(read(&path("pipe"), 5).is_err(), "and it did not wait for a writer");
        std::fs::hard_link(path("file"), path("second")).expect("ours");
        assert!(read(&path("file"), 5).is_err(), "somebody else's file may be the other name");
    }

    #[test]
    fn a_file_is_put_in_place_of_a_link_and_never_through_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (victim, path) = (folder.path().join("victim"), folder.path().join("new"));
        std::fs::write(&victim, "whole").expect("ours");
        symlink(&victim, &path).expect("ours");
        put_file(&path, b"bytes", 0o644).expect("put");
        assert_eq!(std::fs::read(&victim).expect("there"), b"whole");
        assert_eq!(std::fs::read(&path).expect("there"), b"bytes");
        assert_eq!(path.symlink_metadata().expect("there").mode() & 0o7777, 0o644);
        assert_eq!(std::fs::read_dir(folder.path()).expect("ours").count(), 2, "nothing is left beside it");
    }
}
