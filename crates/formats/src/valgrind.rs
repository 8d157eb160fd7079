//! Frames as valgrind's tools write them: `0x11F656: name (file.rs:433)` or `0x…: name (in /path/object)`. The dhat
//! crate writes `(file.rs:433:9)`, with the column after the line.

use flamelet_profile::{Line, LocationId};

use crate::assembly::Assembly;

/// Returns the location of a frame written by massif or DHAT.
pub(crate) fn location(text: &str, assembly: &mut Assembly) -> LocationId {
    let Some((address, rest)) = split_address(text) else { return assembly.frame(text, "", 0) };
    let (name, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, place)) => (name, place),
        None => (rest, ""),
    };
    let name = if name.is_empty() || name == "???" { None } else { Some(name) };
    let object = place.strip_prefix("in ");
    let module = object.map(|object| assembly.module(object));
    let Some(name) = name else { return assembly.builder.address(module, address) };
    let (file, line, column) = if object.is_some() { ("", 0, 0) } else { split_place(place) };
    let function = Some(assembly.builder.named_function(name, file));
    assembly.builder.location(module, address, &[Line { function, line, column }])
}

/// Splits `file:line:column` or `file:line` into file, line and column.
fn split_place(place: &str) -> (&str, i64, i64) {
    let (file, line, column) = match split_number(place) {
        Some((rest, last)) => match split_number(rest) {
            Some((file, line)) => (file, line, last),
            None => (rest, last, 0),
        },
        None => (place, 0, 0),
    };
    if file == "???" { ("", 0, 0) } else { (file, line, column) }
}

fn split_number(text: &str) -> Option<(&str, i64)> {
    let (before, number) = text.rsplit_once(':')?;
    Some((before, number.parse().ok()?))
}

fn split_address(text: &str) -> Option<(u64, &str)> {
    let (address, rest) = text.strip_prefix("0x")?.split_once(": ")?;
    Some((u64::from_str_radix(address, 16).ok()?, rest))
}
