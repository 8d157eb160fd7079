//! Values of the types that configurations use; anything else is a mistake with its place.

use std::time::Duration;

use flamelet_profile::{budget, moment};

use super::parse::{Mistake, YamlNode, YamlValue};

pub(crate) type Read<T> = Result<T, Mistake>;

/// Returns the entries of a map whose keys must be among `known`.
pub(crate) fn entries<'a>(node: &'a YamlNode, known: &[&str]) -> Read<Vec<(&'a str, &'a YamlNode)>> {
    let mut entries = Vec::new();
    for (key, value) in map(node)? {
        let name = text(key)?;
        if !known.contains(&name) {
            return Err(key.mistake(format!("unknown key {name:?}; known are {}", known.join(", "))));
        }
        entries.push((name, value));
    }
    Ok(entries)
}

fn kind(node: &YamlNode) -> &'static str {
    match node.value {
        YamlValue::Text(_) => "a text",
        YamlValue::List(_) => "a list",
        YamlValue::Map(_) => "keys with values",
    }
}

pub(crate) fn map(node: &YamlNode) -> Read<&[(YamlNode, YamlNode)]> {
    match &node.value {
        YamlValue::Map(entries) => Ok(entries),
        _ => Err(node.mistake(format!("expected keys with values, found {}", kind(node)))),
    }
}

pub(crate) fn list(node: &YamlNode) -> Read<&[YamlNode]> {
    match &node.value {
        YamlValue::List(items) => Ok(items),
        _ => Err(node.mistake(format!("expected a list, found {}", kind(node)))),
    }
}

pub(crate) fn text(node: &YamlNode) -> Read<&str> {
    match &node.value {
        YamlValue::Text(text) => Ok(text),
        _ => Err(node.mistake(format!("expected a text, found {}", kind(node)))),
    }
}

pub(crate) fn duration(node: &YamlNode) -> Read<Duration> {
    let text = text(node)?;
    let wrong = || node.mistake(format!("{text:?} is not a length of time; write it as 30s, 5m or 7d"));
    moment::parse_length(text).ok_or_else(wrong)
}

pub(crate) fn size(node: &YamlNode) -> Read<u64> {
    let text = text(node)?;
    let wrong = || node.mistake(format!("{text:?} is not a size; write it as 512MiB or 20GiB"));
    budget::parse_size(text).ok_or_else(wrong)
}

pub(crate) fn count(node: &YamlNode) -> Read<usize> {
    let text = text(node)?;
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| node.mistake(format!("{text:?} is not a whole number above 0")))
}

pub(crate) fn flag(node: &YamlNode) -> Read<bool> {
    match text(node)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(node.mistake(format!("{other:?} is neither true nor false"))),
    }
}
