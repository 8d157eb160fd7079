//! Uprobes at functions of programs, found by name.
//!
//! A probe is a tracepoint in the trace file system for the duration of the recording. (The kernel's other way, an
//! event of the kind `uprobe`, names its file by a pointer, which each new thread of the target would follow in its
//! own memory: the target could no longer start threads and children.)

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use flamelet_profile::open_regular;
use flamelet_symbol::demangle::demangle;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::access::tracefs;
use crate::sweeper::Sweeper;
use crate::{Error, ErrorKind, Result};

/// A probe, which exists until this is dropped. All of its events must be closed before.
#[derive(Debug)]
pub(crate) struct Probe {
    list: PathBuf,
    group: String,
    name: String,
    /// Removes it if this process is killed.
    sweeper: Option<Sweeper>,
}

/// The prefix of the groups of our probes, followed by the pid of the recorder.
const GROUP: &str = "flamelet_";

impl Probe {
    /// Sets a probe at `PATH:FUNCTION`.
    pub(crate) fn set(place: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let bad = |message: String| Error::new(ErrorKind::InvalidOption, message);
        let (path, function) = place
            .split_once(':')
            .filter(|(path, function)| !path.is_empty() && !function.is_empty())
            .ok_or_else(|| {
                bad(format!("invalid probe {place:?}; expected uprobe:/path/to/program:function"))
            })?;
        let unreadable = |error: std::io::Error| bad(format!("{path}: {error}"));
        let mut file = open_regular(Path::new(path)).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let offset = offset_of(Path::new(path), &bytes, function)?;
        let list = tracefs::folder()?.join("uprobe_events");
        remove_forgotten(&list);
        let mut probe = Self {
            list,
            sweeper: None,
            group: format!("{GROUP}{}", std::process::id()),
            name: format!("probe{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        };
        // Named by its descriptor, because a path may contain spaces. The kernel resolves it now and keeps the file.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let set = write_line(&probe.list, &format!("p:{}/{} {path}:{offset:#x}", probe.group, probe.name));
        match set.map_err(|error| error.kind()) {
            Ok(()) => {
                probe.sweeper = Sweeper::of_line(&probe.list, &probe.removal());
                Ok(probe)
            }
            Err(std::io::ErrorKind::NotFound) => {
                Err(Error::new(ErrorKind::Unsupported, "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"))
            }
            Err(std::io::ErrorKind::PermissionDenied) => {
                Err(Error::new(ErrorKind::Denied, "only root may set probes; run with sudo"))
            }
            Err(kind) => Err(bad(format!("{function}: the kernel refuses a probe there: {kind}"))),
        }
    }

    /// Returns the line that removes it.
    fn removal(&self) -> String {
        format!("-:{}/{}", self.group, self.name)
    }

    pub(crate) fn tracepoint_id(&self) -> Result<u64> {
        tracefs::tracepoint_id(&self.group, &self.name)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // If it cannot be removed now, the next recording removes it.
        let _ = write_line(&self.list, &self.removal());
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.dismiss();
        }
    }
}

/// Appends a line to the kernel's list; opening it in any other way would remove all existing probes.
fn write_line(list: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(list)?.write_all(format!("{line}\n").as_bytes())
}

/// Removes the probes of recorders that were killed.
fn remove_forgotten(list: &Path) {
    let lines = std::fs::read_to_string(list).unwrap_or_default();
    for probe in lines.lines().filter_map(|line| line.strip_prefix("p:")?.split(' ').next()) {
        let owner = probe.strip_prefix(GROUP).and_then(|rest| rest.split('/').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = write_line(list, &format!("-:{probe}"));
        }
    }
}

fn offset_of(path: &Path, bytes: &[u8], function: &str) -> Result<u64> {
    let bad =
        |message: String| Error::new(ErrorKind::InvalidOption, format!("{}: {message}", path.display()));
    let file = object::File::parse(bytes).map_err(|error| bad(error.to_string()))?;
    let mut found: Vec<(u64, String)> = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let readable = demangle(name);
        let is_it = name == function || readable == function || is_last_part(&readable, function);
        if is_it && !found.iter().any(|(address, _)| *address == symbol.address()) {
            found.push((symbol.address(), readable.into_owned()));
        }
    }
    match &found[..] {
        [] => Err(bad(format!("no function with the name {function}"))),
        [(address, _)] => {
            in_file(&file, *address).ok_or_else(|| bad(format!("{function} is not in any segment")))
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|(_, name)| name.as_str()).collect();
            Err(bad(format!("{} functions have the name {function}: {}, …", several.len(), names.join(", "))))
        }
    }
}

/// Returns whether `path::to::function` ends in `function`, at a component boundary.
fn is_last_part(name: &str, function: &str) -> bool {
    name.strip_suffix(function).is_some_and(|front| front.ends_with("::"))
}

fn in_file(file: &object::File<'_>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let inside = address.checked_sub(segment.address())?;
        let (offset, size) = segment.file_range();
        (inside < size).then_some(offset + inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_parts_of_names() {
        assert!(is_last_part("server::parse", "parse"));
        assert!(is_last_part("a::server::parse", "server::parse"));
        assert!(!is_last_part("server::reparse", "parse"));
        assert!(!is_last_part("parse", "parse"));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for place in ["", "main", "/bin/true:", ":main", "/no/such/file:main"] {
            assert!(Probe::set(place).is_err(), "{place}");
        }
    }
}
