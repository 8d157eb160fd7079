//! Probes at functions of programs, found by name.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flamelet_symbol::demangle::demangle;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::{Error, ErrorKind, Result};

/// Where a probe sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) path: CString,
    /// In the file.
    pub(crate) offset: u64,
}

const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// The number of this kind of event, and the probe for `PATH:FUNCTION`.
pub(crate) fn find(place: &str) -> Result<(u32, Probe)> {
    let bad = |message: String| Error::new(ErrorKind::BadOption, message);
    let (path, function) = place
        .split_once(':')
        .filter(|(path, function)| !path.is_empty() && !function.is_empty())
        .ok_or_else(|| bad(format!("a probe is given as uprobe:/path/to/program:function, not {place:?}")))?;
    let kind = std::fs::read_to_string(KIND).ok().and_then(|text| text.trim().parse().ok());
    let kind = kind.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)")
    })?;
    let path = std::fs::canonicalize(path).map_err(|error| bad(format!("{path}: {error}")))?;
    let offset = offset_of(&path, function)?;
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| bad(error.to_string()))?;
    Ok((kind, Probe { path, offset }))
}

fn offset_of(path: &Path, function: &str) -> Result<u64> {
    let bad = |message: String| Error::new(ErrorKind::BadOption, format!("{}: {message}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let file = object::File::parse(&*bytes).map_err(|error| bad(error.to_string()))?;
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
        [] => Err(bad(format!("no function is called {function}"))),
        [(address, _)] => in_file(&file, *address).ok_or_else(|| bad(format!("{function} is in no segment"))),
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|(_, name)| name.as_str()).collect();
            Err(bad(format!("{} functions are called {function}: {}, …", several.len(), names.join(", "))))
        }
    }
}

/// Whether `path::to::function` ends in `function`, at a whole part.
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
            assert!(find(place).is_err(), "{place}");
        }
    }
}
