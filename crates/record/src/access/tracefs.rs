//! Where the kernel lists its tracepoints.

use std::path::{Path, PathBuf};

use crate::sys::machine;
use crate::{Error, ErrorKind, Result};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Returns the folder of the trace file system, if it is mounted and readable.
pub(crate) fn mounted() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|place| place.join("events").is_dir())
}

/// Returns the folder of the trace file system, mounting it first if it can.
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(folder) = mounted() {
        return Ok(folder);
    }
    let place = Path::new(PLACES[0]);
    let refused = match machine::mount_tracefs(place) {
        Ok(()) => return mounted().ok_or_else(|| unreadable("it is mounted but has no events")),
        Err(error) => error,
    };
    let is_mounted = std::fs::read_to_string("/proc/self/mounts")
        .is_ok_and(|mounts| mounts.lines().any(|line| line.split(' ').nth(2) == Some("tracefs")));
    if is_mounted {
        return Err(unreadable(
            "only root may read it; allow it with `sudo mount -o remount,mode=755 /sys/kernel/tracing`",
        ));
    }
    Err(unreadable(&format!(
        "it is not mounted and mounting it failed ({refused}); mount it with `sudo mount -t tracefs nodev {}`",
        PLACES[0]
    )))
}

fn unreadable(why: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("tracepoints need the trace file system: {why}"))
}

/// The number of the tracepoint `group:name`.
pub(crate) fn tracepoint_id(group: &str, name: &str) -> Result<u64> {
    let folder = folder()?;
    let path = folder.join("events").join(group).join(name).join("id");
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| {
            Error::new(ErrorKind::Unsupported, format!("{} does not contain a number", path.display()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(unreadable("only root may read its events; run with sudo"))
        }
        Err(_) => Err(Error::new(
            ErrorKind::InvalidOption,
            format!("no tracepoint {group}:{name} in {}/events", folder.display()),
        )),
    }
}
