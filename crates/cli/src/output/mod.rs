//! Output: to standard output, or to a file that is either complete or does not exist.

pub(crate) mod text;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{About, Failure, Result};

/// Writes a result to `path`, or to standard output without one. A file appears only when it is complete.
pub(crate) fn write(path: Option<&Path>, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    match path {
        Some(path) if path != Path::new("-") => write_file(path, produce),
        _ => {
            let mut out = BufWriter::new(io::stdout().lock());
            produce(&mut out)?;
            out.flush()?;
            Ok(())
        }
    }
}

/// Writes one line, or a few, to standard output at once.
pub(crate) fn line(text: &str) -> Result<()> {
    write(None, |out| Ok(writeln!(out, "{text}")?))
}

/// Returns the extension of a file's name.
pub(crate) fn extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Returns the error that `path` has an unknown extension: what the output is, and which extensions it may have.
pub(crate) fn unknown_extension(path: Option<&Path>, what: &str, extensions: &str) -> Failure {
    let name = path.unwrap_or(Path::new("-")).display();
    Failure::new(format!("{name}: {what}; use {extensions}"))
}

/// Refuses a path that cannot be written, before work is done that would be lost.
pub(crate) fn check(path: Option<&Path>) -> Result<()> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(()) };
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Failure::new(format!("{}: this is a folder; give a file name", path.display())));
    }
    // Do not open a pipe, which would wait for its reader.
    if is_special(path) { check_link(path) } else { temporary_beside(path).map(drop) }
}

/// Refuses a link to a device or pipe that another user has put into a folder that all can write: root would write to
/// a disk.
fn check_link(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(link), Ok(folder)) = (fs::symlink_metadata(path), fs::metadata(folder)) else { return Ok(()) };
    let own = fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let is_strangers =
        link.is_symlink() && link.uid() != 0 && link.uid() != own && link.uid() != folder.uid();
    if is_strangers && folder.mode() & WRITABLE_BY_OTHERS != 0 {
        let why = "this is a link created by another user; give another name";
        return Err(Failure::new(format!("{}: {why}", path.display())));
    }
    Ok(())
}

/// Creates an empty file in the folder for temporary files, with a free name that resembles that of `path`.
pub(crate) fn free_name_like(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    let file = tempfile::Builder::new().prefix(&format!("{stem}-")).suffix(ending).tempfile()?;
    Ok(file.keep().map_err(|error| error.error)?.1)
}

fn write_file(path: &Path, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let name = path.display();
    // A device or pipe cannot be replaced, so it is written directly.
    if is_special(path) {
        check_link(path)?;
        let mut out = BufWriter::new(File::options().write(true).open(path).about(name)?);
        produce(&mut out).about(path.display())?;
        out.flush().about(path.display())?;
        return Ok(());
    }
    let mut out = BufWriter::new(temporary_beside(path)?);
    produce(&mut out).about(path.display())?;
    let temporary = out.into_inner().map_err(io::IntoInnerError::into_error).about(path.display())?;
    temporary.persist(path).map_err(|error| error.error).about(path.display())?;
    Ok(())
}

/// Returns whether `path` exists and is not a regular file: a pipe, a device, a folder.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Returns a temporary file that replaces `path` when it is complete.
fn temporary_beside(path: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".flamelet-").permissions(public_permissions());
    temporary.tempfile_in(folder).map_err(|error| without_path(&error)).about(path.display())
}

/// Removes the temporary file's name from an error, which would only confuse.
fn without_path(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::NotFound, "no such folder"),
            io::ErrorKind::NotADirectory => {
                io::Error::new(error.kind(), "part of this path is a file, not a folder")
            }
            kind => kind.into(),
        },
    }
}

/// Returns the usual permissions of new files: readable and writable by all, less the umask.
fn public_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}
