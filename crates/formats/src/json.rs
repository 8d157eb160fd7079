//! JSON: telling formats apart by the keys of the outermost object, and reading with one-line errors.

mod metered;

use flamelet_profile::{Budget, Error, ErrorKind, Result};
use metered::Metered;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Deserializer};

/// The most keys that are looked at; files of the formats that are known have some dozens.
const MAX_KEYS: usize = 4096;

/// The keys of the outermost object of `text`, which may be cut anywhere; `None` when it is no object.
pub(crate) fn top_keys(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut scanner = Scanner { text, at: 0 };
    (scanner.skip_space()? == b'{').then(|| scanner.keys())
}

/// The keys of the first object inside the outermost array of `text`.
pub(crate) fn first_item_keys(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut scanner = Scanner { text, at: 0 };
    if scanner.skip_space()? != b'[' {
        return None;
    }
    scanner.at += 1;
    (scanner.skip_space()? == b'{').then(|| scanner.keys())
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn skip_space(&mut self) -> Option<u8> {
        let skipped = self.text[self.at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += skipped;
        Some(self.text[self.at])
    }

    /// The keys of the object at the cursor, as far as the text goes.
    fn keys(&mut self) -> Vec<&'a [u8]> {
        let mut keys = Vec::new();
        let mut depth = 0u32;
        let mut expects_key = false;
        while let Some(byte) = self.skip_space() {
            self.at += 1;
            match byte {
                b'{' | b'[' => {
                    depth += 1;
                    expects_key = depth == 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                b',' => expects_key = depth == 1,
                b'"' => {
                    let Some(string) = self.string() else { break };
                    if depth == 1 && expects_key {
                        keys.push(string);
                        expects_key = false;
                    }
                    if keys.len() > MAX_KEYS {
                        break;
                    }
                }
                _ => {}
            }
        }
        keys
    }

    /// The string whose opening quote was read.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = string_end(self.text, start)?;
        Some(&self.text[start..self.at - 1])
    }
}

/// Where the string ends whose text starts at `at`, behind the closing quote.
pub(crate) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)? + 1;
        if text[at - 1] == b'"' {
            return Some(at);
        }
        at += 1;
    }
}

/// The length of the longest string with escapes.
fn longest_escaped(text: &[u8]) -> usize {
    let (mut at, mut longest) = (0, 0);
    while let Some(quote) = text.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let start = at + quote + 1;
        at = string_end(text, start).unwrap_or(text.len());
        if at - start > longest && memchr::memchr(b'\\', &text[start..at]).is_some() {
            longest = at - start;
        }
    }
    longest
}

/// `text` without the mark that some editors put in front of it.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Reads the whole of `text` as `T`, which is charged to `budget`; `what` names the format in errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8], what: &str, budget: &Budget) -> Result<T> {
    // The parser puts a text with escapes together before anybody sees it.
    let _escaped = budget.lend(longest_escaped(text))?;
    let mut from = serde_json::Deserializer::from_slice(without_mark(text));
    let parsed = parse_seed(std::marker::PhantomData, &mut from, budget);
    parsed.and_then(|parsed| from.end().map(|()| parsed)).map_err(|error| explain(&error, what, budget))
}

/// Reads what `seed` makes, which is charged to `budget`.
pub(crate) fn parse_seed<'de, S: DeserializeSeed<'de>, D: Deserializer<'de>>(
    seed: S,
    from: D,
    budget: &Budget,
) -> std::result::Result<S::Value, D::Error> {
    Metered { inner: seed, budget }.deserialize(from)
}

/// Reads a `T` that is charged to a budget, inside of something that is not.
pub(crate) struct Charged<'b, T> {
    budget: &'b Budget,
    kind: std::marker::PhantomData<T>,
}

impl<'b, T> Charged<'b, T> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        Self { budget, kind: std::marker::PhantomData }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Charged<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<T, D::Error> {
        parse_seed(self.kind, from, self.budget)
    }
}

/// What is wrong with a JSON text, unless the budget has run out.
pub(crate) fn explain(error: &serde_json::Error, what: &str, budget: &Budget) -> Error {
    if let Err(error) = budget.check() {
        return error;
    }
    let kind = match error.classify() {
        serde_json::error::Category::Eof => ErrorKind::Truncated,
        serde_json::error::Category::Io => ErrorKind::Io,
        _ => ErrorKind::Corrupt,
    };
    Error::new(kind, format!("the {what} JSON is damaged: {error}"))
}

/// A string that may be missing, null or a number, which some writers use for ids.
pub(crate) fn loose_text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Text(String),
        /// Not as a float, which would round large ones.
        Whole(u64),
        Number(f64),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Loose::deserialize(from)? {
        Loose::Text(text) => text,
        Loose::Whole(number) => number.to_string(),
        Loose::Number(number) => number.to_string(),
        Loose::Other(_) => String::new(),
    })
}

/// A value, or its default where the file has null.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_whole_and_cut_objects() {
        let text = br#" {"a":{"x":[1,"}"]},"b":"q\"c\":","c":[{"d":1}], "e" : 2}"#;
        assert_eq!(top_keys(text).unwrap(), [b"a", b"b", b"c", b"e"]);
        for cut in 0..text.len() {
            top_keys(&text[..cut]);
        }
        assert_eq!(first_item_keys(b"[ {\"ph\":1}").unwrap(), [b"ph"]);
        assert_eq!(top_keys(b"[1]"), None);
        assert_eq!(longest_escaped(text), br#"q\"c\":""#.len());
        assert_eq!(longest_escaped(br#"["plain", "cut\n"#), 5);
    }
}
