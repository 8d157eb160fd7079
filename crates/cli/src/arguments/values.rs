//! Parsers for the values of options, and their error messages (clap quotes the values itself).

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flamelet_profile::unit::{are_compatible, ratio};

/// Reads `5%`, `5` (percent) or `0.5%` as a fraction.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err("not a percentage such as 5%".into()),
    }
}

/// Reads `10`, `10s` or `2.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim().trim_end_matches('s');
    let parsed = number.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "not a number of seconds such as 10".into())
}

/// Reads `512MB`, `1GB`, `65536`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.is_empty() { "b" } else { unit };
    let known = are_compatible(unit, "b");
    let scale = ratio(unit, "b");
    match number.parse::<u64>() {
        Ok(number) if known && number > 0 => Ok((number as f64 * scale) as u64),
        _ => Err("not a size such as 512MB".into()),
    }
}

/// Reads the path of an existing file or folder.
pub(crate) fn existing_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.metadata() {
        Ok(_) => Ok(path),
        Err(error) => Err(crate::error::plain_words(&error)),
    })
}
