//! Series of raw profiles, and the parts that Pyroscope's and Parca's messages have in common.
//!
//! Everything that is kept is charged to a budget: a label without text has two bytes in a message and 48 in memory.

use flamelet_profile::budget::{ALLOCATION, Budget};
use flamelet_profile::protobuf::Fields;
use flamelet_profile::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::querier::Codec;

/// Series of a push, and profiles of a series, at most: what a sender puts into one request is far less.
const MAX_SERIES: usize = 10_000;
const MAX_PROFILES: usize = 10_000;
const MAX_LABELS: usize = 1000;
/// What a JSON value takes in memory at most, besides its text: an object has a node with room for eleven entries.
const JSON_OBJECT: usize = 640;
const JSON_VALUE: usize = 96;

/// Profiles that share their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushedSeries {
    /// Labels, as (name, value), with those that Pyroscope reserves: `__name__`, `__delta__`.
    pub labels: Vec<(String, String)>,
    /// The profiles.
    pub profiles: Vec<PushedProfile>,
}

impl PushedSeries {
    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

/// A profile as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushedProfile {
    /// What the sender calls this profile; often empty.
    pub id: String,
    /// The file: pprof, usually with gzip.
    pub raw: Vec<u8>,
}

/// What differs between the requests of Pyroscope and of Parca.
pub(super) struct RequestLayout {
    /// The number of the field that repeats the series.
    pub(super) series: u32,
    /// Adds the labels in the first field of a series.
    pub(super) add_labels: fn(&[u8], &mut Labels, &Budget) -> Result<()>,
    /// Reads the second field of a series.
    pub(super) profile: fn(&[u8], &Budget) -> Result<PushedProfile>,
    /// Returns the JSON object of a series that has the list of labels.
    pub(super) json_labels: fn(&Value) -> &Value,
}

type Labels = Vec<(String, String)>;

impl RequestLayout {
    /// Reads a request, and charges what it keeps to `budget`.
    pub(super) fn read(&self, codec: Codec, body: &[u8], budget: &Budget) -> Result<Vec<PushedSeries>> {
        match codec {
            Codec::Proto => self.read_proto(body, budget),
            Codec::Json => self.read_json(body, budget),
        }
    }

    fn read_proto(&self, body: &[u8], budget: &Budget) -> Result<Vec<PushedSeries>> {
        let mut all = Vec::new();
        let mut fields = Fields::new(body);
        while let Some((number, value)) = fields.next()? {
            if number == self.series {
                add(&mut all, self.series(value.bytes()?, budget)?, (MAX_SERIES, "series"), budget)?;
            }
        }
        Ok(all)
    }

    fn series(&self, message: &[u8], budget: &Budget) -> Result<PushedSeries> {
        let mut series = PushedSeries::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => (self.add_labels)(value.bytes()?, &mut series.labels, budget)?,
                2 => {
                    let profile = (self.profile)(value.bytes()?, budget)?;
                    add(&mut series.profiles, profile, (MAX_PROFILES, "profiles of a series"), budget)?;
                }
                _ => {}
            }
        }
        Ok(series)
    }

    fn read_json(&self, body: &[u8], budget: &Budget) -> Result<Vec<PushedSeries>> {
        let mut all = Vec::new();
        for series in list(&json(body, budget)?, "series")? {
            let labels = labels_json((self.json_labels)(series), budget)?;
            let series = PushedSeries { labels, profiles: profiles_json(series, budget)? };
            add(&mut all, series, (MAX_SERIES, "series"), budget)?;
        }
        Ok(all)
    }
}

/// Adds the label in a message: `name = 1`, `value = 2`.
pub(super) fn add_label(message: &[u8], labels: &mut Labels, budget: &Budget) -> Result<()> {
    add(labels, pair(message, budget)?, (MAX_LABELS, "labels of a series"), budget)
}

fn pair(message: &[u8], budget: &Budget) -> Result<(String, String)> {
    let (mut name, mut text) = (String::new(), String::new());
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = utf8(value.bytes()?, budget)?,
            2 => text = utf8(value.bytes()?, budget)?,
            _ => {}
        }
    }
    Ok((name, text))
}

pub(super) fn utf8(bytes: &[u8], budget: &Budget) -> Result<String> {
    String::from_utf8(copy(bytes, budget)?).map_err(|_| wrong("a text is not UTF-8"))
}

pub(super) fn copy(bytes: &[u8], budget: &Budget) -> Result<Vec<u8>> {
    budget.charge(bytes.len() + ALLOCATION)?;
    Ok(bytes.to_vec())
}

pub(super) fn json(body: &[u8], budget: &Budget) -> Result<Value> {
    let count = |what: &[u8]| body.iter().filter(|byte| what.contains(byte)).count();
    budget.charge(body.len() + count(b"{") * JSON_OBJECT + count(b",[") * JSON_VALUE)?;
    serde_json::from_slice(body).map_err(|error| wrong(&error.to_string()))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value]> {
    match &value[name] {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(&[]),
        _ => Err(wrong(&format!("{name} is not a list"))),
    }
}

/// Reads the labels of a series in JSON.
fn labels_json(value: &Value, budget: &Budget) -> Result<Vec<(String, String)>> {
    let mut labels = Vec::new();
    for label in list(value, "labels")? {
        let pair = (text(label, "name", budget)?, text(label, "value", budget)?);
        add(&mut labels, pair, (MAX_LABELS, "labels of a series"), budget)?;
    }
    Ok(labels)
}

fn profiles_json(series: &Value, budget: &Budget) -> Result<Vec<PushedProfile>> {
    let mut profiles = Vec::new();
    for sample in list(series, "samples")? {
        let either = |one, other| -> Result<String> {
            Ok([text(sample, one, budget)?, text(sample, other, budget)?].concat())
        };
        let raw = base64(&either("rawProfile", "raw_profile")?);
        let raw = raw.ok_or_else(|| wrong("rawProfile is not base64"))?;
        let profile = PushedProfile { id: either("ID", "id")?, raw };
        add(&mut profiles, profile, (MAX_PROFILES, "profiles of a series"), budget)?;
    }
    Ok(profiles)
}

fn text(value: &Value, name: &str, budget: &Budget) -> Result<String> {
    match &value[name] {
        Value::String(text) => {
            // Twice, because the caller may join or decode it.
            budget.charge(2 * (text.len() + ALLOCATION))?;
            Ok(text.clone())
        }
        Value::Null => Ok(String::new()),
        _ => Err(wrong(&format!("{name} is not a text"))),
    }
}

/// Adds an item to a list, which has a maximum length.
fn add<T>(all: &mut Vec<T>, item: T, (most, what): (usize, &str), budget: &Budget) -> Result<()> {
    /// A list begins with room for this many.
    const FIRST: usize = 4;
    // While a list grows, the old one is still there.
    budget.charge(size_of::<T>() * if all.is_empty() { FIRST } else { 3 })?;
    if all.len() >= most {
        return Err(Error::new(ErrorKind::TooLarge, format!("the push has more than {most} {what}")));
    }
    all.push(item);
    Ok(())
}

/// Decodes base64 with the standard or the URL alphabet, with or without padding.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // Six bits alone are no byte.
    (count < 6).then_some(bytes)
}

pub(super) fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("the push cannot be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::Limits;

    #[test]
    fn base64_of_any_length() {
        for (text, bytes) in
            [("", &b""[..]), ("aA==", b"h"), ("aGU", b"he"), ("_-8=", b"\xff\xef"), ("/+8", b"\xff\xef")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64("a"), None);
        assert_eq!(base64("a b="), None);
    }

    #[test]
    fn json_of_very_many_values_is_refused() {
        let budget = Budget::new(Limits::SERVICE);
        let many = format!("[{}0]", "{\"\":0},".repeat(1 << 20));
        let error = json(many.as_bytes(), &budget).expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(json(br#"[{"a":[0,0]}]"#, &Budget::new(Limits::SERVICE)).is_ok());
    }
}
