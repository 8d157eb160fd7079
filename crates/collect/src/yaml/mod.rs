//! YAML files: a strict part of the language, and its values with their places, for messages.

mod parse;
mod typed;

pub(crate) use parse::{YamlNode, YamlValue, parse};
pub(crate) use typed::{Read, count, duration, entries, flag, list, map, size, text};
