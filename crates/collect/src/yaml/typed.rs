//! Values of the types that files have; what is none of them is a mistake with its place.

use std::time::Duration;

use flamelet_profile::{budget, moment};

use super::parse::{Mistake, Node, Value};

pub(crate) type Read<T> = Result<T, Mistake>;

/// Returns the entries of a map whose keys must be among `known`.
pub(crate) fn entries<'a>(node: &'a Node, known: &[&str]) -> Read<Vec<(&'a str, &'a Node)>> {
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

fn kind(node: &Node) -> &'static str {
    match node.value {
        Value::Text(_) => "a text",
        Value::List(_) => "a list",
        Value::Map(_) => "keys with values",
    }
}

pub(crate) fn map(node: &Node) -> Read<&[(Node, Node)]> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        _ => Err(node.mistake(format!("expected keys with values, found {}", kind(node)))),
    }
}

pub(crate) fn list(node: &Node) -> Read<&[Node]> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(node.mistake(format!("expected a list, found {}", kind(node)))),
    }
}

pub(crate) fn text(node: &Node) -> Read<&str> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(node.mistake(format!("expected a text, found {}", kind(node)))),
    }
}

pub(crate) fn duration(node: &Node) -> Read<Duration> {
    let text = text(node)?;
    let nanos =
        moment::parse_span(text).and_then(|nanos| u64::try_from(nanos).ok()).filter(|&nanos| nanos > 0);
    let wrong = || node.mistake(format!("{text:?} is not a length of time; write it as 30s, 5m or 7d"));
    nanos.map(Duration::from_nanos).ok_or_else(wrong)
}

pub(crate) fn size(node: &Node) -> Read<u64> {
    let text = text(node)?;
    let wrong = || node.mistake(format!("{text:?} is not a size; write it as 512MiB or 20GiB"));
    budget::parse_size(text).ok_or_else(wrong)
}

pub(crate) fn count(node: &Node) -> Read<usize> {
    let text = text(node)?;
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| node.mistake(format!("{text:?} is not a whole number above 0")))
}

pub(crate) fn flag(node: &Node) -> Read<bool> {
    match text(node)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(node.mistake(format!("{other:?} is neither true nor false"))),
    }
}
