//! Where a library may write, inside a program that is not ours.
#![allow(unsafe_code, reason = "std has no geteuid and getrlimit")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_CLOEXEC;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Returns whether `folder` is the recorder's: it belongs to this user or to root, and no other user can replace
/// files in it. The folder of a recording that is over may belong to someone else by now.
pub fn is_trusted(folder: &Path) -> bool {
    folder.is_absolute()
        && folder.symlink_metadata().is_ok_and(|found| {
            let is_ours = found.uid() == 0 || found.uid() == own_user();
            let is_closed = found.mode() & WRITABLE_BY_OTHERS == 0 || found.mode() & STICKY != 0;
            found.is_dir() && is_ours && is_closed
        })
}

/// Creates a file that only this user can read and write. Fails if anything exists there, even a link.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(FLAGS).open(path)
}

/// Opens a file that [`create`] made, for reading and writing; with `appends`, for writing at its end.
pub fn open(path: &Path, appends: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).append(appends).custom_flags(FLAGS | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = file.metadata()?;
    let is_ours = found.is_file() && found.nlink() == 1 && found.uid() == own_user();
    if is_ours { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Fails if the program may not have files of this length: writing one would kill it (`SIGXFSZ`).
pub fn check_length(length: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to the structure only.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if is_known && length <= limit.rlim_cur { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

fn own_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_folders_in_which_nothing_can_be_replaced_are_trusted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let with = |mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
            is_trusted(path)
        };
        assert_eq!([0o700, 0o1733, 0o733, 0o770, 0o755].map(with), [true, true, false, false, true]);
        symlink(path, path.join("link")).expect("ours");
        assert!(!is_trusted(&path.join("link")) && !is_trusted(&path.join("missing")));
        assert!(!is_trusted(Path::new(".")));
    }

    #[test]
    fn files_are_made_new_and_opened_as_they_were_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        create(&path("file")).expect("new");
        assert_eq!(create(&path("file")).expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        assert!(open(&path("file"), false).is_ok() && open(&path("file"), true).is_ok());
        symlink(path("file"), path("link")).expect("ours");
        assert!(create(&path("link")).is_err() && open(&path("link"), false).is_err());
        symlink(path("nothing"), path("dangling")).expect("ours");
        assert!(create(&path("dangling")).is_err() && !path("nothing").exists());
        std::fs::hard_link(path("file"), path("second")).expect("ours");
        assert!(open(&path("file"), true).is_err());
    }
}
