//! Files on the local disk, with errors that say which file they are about.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use flamelet_profile::{Error, ErrorKind, Result};
use flamelet_store::private;

/// More entries than this are not listed in one folder.
const MAX_ENTRIES: usize = 1_000_000;

/// Removes a file, or a folder with everything in it.
pub(crate) fn remove_all(path: &Path) {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let _ = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Makes a folder and those above it, which only this user can read. One that exists must not be another user's, or a link.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    private::create_folder(path).map_err(|error| Error::of_file(path, &error))
}

/// Like [`make_folder`], for the folder that a person has named: it may be a link.
pub(crate) fn make_named_folder(path: &Path) -> Result<()> {
    private::create_named_folder(path).map_err(|error| Error::of_file(path, &error))
}

/// Writes a file, which only this user can read, in place of one that a crash has left.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = private::create(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Writes a file and waits until the disk has its content; its name is on disk when its folder is synced.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = write_new(path, bytes).and_then(|file| file.sync_all());
    written.map_err(|error| Error::of_file(path, &error))
}

pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|error| Error::of_file(path, &error))
}

/// Reads a regular file of at most `most` bytes, which is no link.
pub(crate) fn read_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = private::open(path).map_err(|error| Error::of_file(path, &error))?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::of_file(path, &error))?;
    if bytes.len() as u64 > most {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{}: is longer than {most} bytes", path.display()),
        ));
    }
    Ok(bytes)
}

/// Returns the entries of a folder, each with its name; none if it does not exist.
pub(crate) fn entries(path: &Path) -> Result<Vec<(String, fs::DirEntry)>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::of_file(path, &error)),
    };
    let named = entries.take(MAX_ENTRIES).flatten();
    Ok(named.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry))).collect())
}
