//! YAML files: a strict subset of the language, whose values know their line and column for messages.

mod parse;
mod typed;

pub(crate) use parse::{YamlNode, YamlValue, parse};
pub(crate) use typed::{Read, count, duration, entries, flag, list, map, size, text};
