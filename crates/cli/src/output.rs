//! Where results go: standard output, or a file that is either whole or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{About, Result};

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

fn write_file(path: &Path, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let name = path.display();
    // A device or pipe cannot be replaced, so it is written as it is.
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        let mut out = BufWriter::new(File::options().write(true).open(path).about(name)?);
        produce(&mut out).about(path.display())?;
        out.flush().about(path.display())?;
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".flamelet-").permissions(public_permissions());
    let temporary = temporary.tempfile_in(folder).map_err(|error| without_path(&error)).about(name)?;
    let mut out = BufWriter::new(temporary);
    produce(&mut out).about(path.display())?;
    let temporary = out.into_inner().map_err(io::IntoInnerError::into_error).about(path.display())?;
    temporary.persist(path).map_err(|error| error.error).about(path.display())?;
    Ok(())
}

/// The temporary file's own name would only confuse.
fn without_path(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None if error.kind() == io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::NotFound, "there is no such folder")
        }
        None => error.kind().into(),
    }
}

/// As any other program creates files: for everybody to read, less the umask.
fn public_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}
