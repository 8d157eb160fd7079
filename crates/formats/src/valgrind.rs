//! How valgrind's tools write a frame: `0x11F656: name (file.rs:433)` or `0x…: name (in /path/object)`.

use flamelet_profile::LocationId;

use crate::assembly::Assembly;

/// The location of a frame as massif and DHAT write it.
pub(crate) fn location(text: &str, assembly: &mut Assembly) -> LocationId {
    let Some((address, rest)) = split_address(text) else { return assembly.frame(text, "", 0) };
    let (name, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, place)) => (name, place),
        None => (rest, ""),
    };
    let name = if name.is_empty() || name == "???" { None } else { Some(name) };
    let object = place.strip_prefix("in ");
    let module = object.map(|object| assembly.module(object));
    let (file, line) = match (object, place.rsplit_once(':')) {
        (None, Some((file, line))) => (file, line.parse().unwrap_or(0)),
        (None, None) if place != "???" => (place, 0),
        _ => ("", 0),
    };
    match name {
        Some(name) => assembly.named_address(module, address, name, file, line),
        None => assembly.builder.address(module, address),
    }
}

fn split_address(text: &str) -> Option<(u64, &str)> {
    let (address, rest) = text.strip_prefix("0x")?.split_once(": ")?;
    Some((u64::from_str_radix(address, 16).ok()?, rest))
}
