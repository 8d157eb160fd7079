//! DTrace's aggregated stacks: one frame per line, leaf first, then the count; an empty line between stacks.

use flamelet_profile::{ErrorKind, LabelSetId, LocationId, Profile, Result};

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::{decimal, prefixed_hex, words};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` looks like DTrace's stacks: indented frames with a backquote, and a count on its own line.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let mut has_frame = false;
    head.split(|&byte| byte == b'\n').take(2000).any(|line| {
        let is_indented = line.first().is_some_and(|byte| byte.is_ascii_whitespace());
        has_frame |= is_indented && line.contains(&b'`') && !line.contains(&b';');
        has_frame && is_indented && decimal(line.trim_ascii()).is_some()
    })
}

/// Reads DTrace's stacks.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let mut assembly = Assembly::new(false, budget);
    assembly.column("samples", "count");
    let mut stack: Vec<LocationId> = Vec::new();
    let mut odd_lines = 0u64;
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        let is_indented = line.first().is_some_and(|byte| byte.is_ascii_whitespace());
        let text = line.trim_ascii();
        match decimal(text) {
            Some(count) if !stack.is_empty() => {
                let row = assembly.row(&stack, LabelSetId::EMPTY);
                assembly.add(row, 0, i64::try_from(count).unwrap_or(i64::MAX));
                stack.clear();
            }
            _ if text.is_empty() => {}
            _ if is_probe(text) => {}
            _ if is_indented => stack.push(location(text, &mut assembly)),
            _ => odd_lines += 1,
        }
    }
    if assembly.row_count() == 0 {
        return Err(Error::new(ErrorKind::Truncated, "the DTrace output has no stack with a count"));
    }
    if odd_lines > 0 {
        notes.push(format!("{odd_lines} lines of the DTrace output are not stacks"));
    }
    if !stack.is_empty() {
        notes.push("the last stack has no count".into());
    }
    assembly.finish()
}

/// Returns whether a line is about a probe that fired: `0  75816  :tick-10s`.
fn is_probe(text: &[u8]) -> bool {
    let mut words = words(text);
    words.next().is_some_and(|word| decimal(word).is_some())
        && words.next().is_some_and(|word| decimal(word).is_some())
}

/// ``module`function+0x12``, `0x7f00`, or only a name.
fn location(text: &[u8], assembly: &mut Assembly) -> LocationId {
    if let Some(address) = prefixed_hex(text) {
        return assembly.builder.address(None, address);
    }
    let text = String::from_utf8_lossy(text);
    let text = text.rsplit_once("+0x").map_or(&*text, |(name, _)| name);
    match text.split_once('`') {
        Some((module, name)) => {
            let module = assembly.module(module);
            match name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                Some(address) => assembly.builder.address(Some(module), address),
                None => assembly.builder.named_address(Some(module), 0, name, "", 0),
            }
        }
        None => assembly.frame(text, "", 0),
    }
}
