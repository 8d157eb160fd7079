//! Parsers for the values of options, and their error messages (clap quotes the values itself).

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flamelet_profile::{budget, moment};

/// Reads `5%`, `5` (percent) or `0.5%` as a fraction.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err("not a percentage such as 5%".into()),
    }
}

/// Reads `10` (seconds), `2.5s`, `500ms` or `1m30s`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero()),
        Err(_) => moment::parse_length(text),
    };
    duration.ok_or_else(|| "not a length of time such as 10 (seconds), 500ms or 2m".into())
}

/// Reads `512M`, `1.5GB`, `64KiB` or `65536`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let size = if is_number { text.parse().ok() } else { budget::parse_size(text) };
    size.filter(|&bytes| bytes > 0).ok_or_else(|| "not a size such as 512MB".into())
}

/// Reads the path of an existing file or folder.
pub(crate) fn existing_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.metadata() {
        Ok(_) => Ok(path),
        Err(error) => Err(crate::error::plain_words(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_and_sizes_are_read_as_people_write_them() {
        for (text, millis) in
            [("10", 10_000), ("2.5", 2_500), ("2.5s", 2_500), ("500ms", 500), ("1m30s", 90_000)]
        {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "-1", "ten", "0s", "inf", "NaN", "5 parsecs"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for (text, size) in [("65536", 65_536), ("64K", 65_536), ("512MB", 512 << 20), ("1.5GiB", 3 << 29)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "0", "0MB", "-1", "much", "1.5", "3 acres"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
