//! Events by the names that `perf list` shows.

use flamelet_unwind::perf_event::{event_kind, event_of_name};

use crate::access::tracefs;
use crate::events::uprobe::Probe;
use crate::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(crate) struct NamedEvent {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// The uprobe that it comes from.
    pub(crate) _probe: Option<Probe>,
}

const CACHES: [&[&str]; 7] =
    [&["l1-dcache"], &["l1-icache"], &["llc"], &["dtlb"], &["itlb"], &["branch", "bpu"], &["node"]];
const CACHE_OPERATIONS: [&str; 3] = ["load", "store", "prefetch"];

/// Finds the event called `name`: hardware, software, cache, raw (`r1a8`), a tracepoint (`group:name`) or a function
/// of a program (`uprobe:/path:function`).
pub(crate) fn find(name: &str) -> Result<NamedEvent> {
    let found = |kind, config| Ok(NamedEvent { name: name.to_owned(), kind, config, _probe: None });
    if let Some(place) = name.strip_prefix("uprobe:") {
        let probe = Probe::set(place)?;
        let (name, kind, config) = (name.to_owned(), event_kind::TRACEPOINT, probe.tracepoint_id()?);
        return Ok(NamedEvent { name, kind, config, _probe: Some(probe) });
    }
    if let Some((group, point)) = name.split_once(':') {
        let is_plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if !is_plain(group) || !is_plain(point) {
            return Err(unknown(name));
        }
        return found(event_kind::TRACEPOINT, tracefs::tracepoint_id(group, point)?);
    }
    let lower = name.to_ascii_lowercase();
    if let Some((kind, config)) = event_of_name(&lower) {
        return found(kind, config);
    }
    if let Some(config) = cache_event(&lower) {
        return found(event_kind::HARDWARE_CACHE, config);
    }
    match lower.strip_prefix('r').map(|digits| u64::from_str_radix(digits, 16)) {
        Some(Ok(config)) => found(event_kind::RAW, config),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    let hint = "use a name from `perf list`, such as page-faults, cycles or syscalls:sys_enter_read, or a function as \
                uprobe:/path/to/program:function";
    Error::new(ErrorKind::InvalidOption, format!("unknown event {name:?}: {hint}"))
}

/// Parses `L1-dcache-load-misses` and the like: cache, operation, and whether it missed, a byte each.
fn cache_event(name: &str) -> Option<u64> {
    let (cache, rest) = CACHES.iter().enumerate().find_map(|(number, names)| {
        names.iter().find_map(|cache| Some((number, name.strip_prefix(cache)?.strip_prefix('-')?)))
    })?;
    let (operation, rest) = CACHE_OPERATIONS.iter().enumerate().find_map(|(number, operation)| {
        let rest = rest.strip_prefix(operation)?;
        Some((number, rest.strip_prefix("es").or_else(|| rest.strip_prefix('s')).unwrap_or(rest)))
    })?;
    let missed = match rest {
        "" => 0,
        "-misses" => 1,
        _ => return None,
    };
    Some(cache as u64 | (operation as u64) << 8 | missed << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_perf_list() {
        let event = |name: &str| find(name).map(|event| (event.kind, event.config)).ok();
        assert_eq!(event("page-faults"), Some((event_kind::SOFTWARE, 2)));
        assert_eq!(event("faults"), Some((event_kind::SOFTWARE, 2)));
        assert_eq!(event("cycles"), Some((event_kind::HARDWARE, 0)));
        assert_eq!(event("LLC-load-misses"), Some((event_kind::HARDWARE_CACHE, 0x1_0002)));
        assert_eq!(event("L1-dcache-loads"), Some((event_kind::HARDWARE_CACHE, 0)));
        assert_eq!(event("dTLB-store-misses"), Some((event_kind::HARDWARE_CACHE, 0x1_0103)));
        assert_eq!(event("r1a8"), Some((event_kind::RAW, 0x1a8)));
        for wrong in ["", "page faults", "LLC-load-mis", "../:id", ":", "rxyz"] {
            assert_eq!(event(wrong), None, "{wrong}");
        }
    }
}
