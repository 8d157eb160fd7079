//! JSON: distinguishes formats by the keys of the outermost object, and parses with one-line errors.

mod metered;

use std::io;

use flamelet_profile::{Budget, Error, ErrorKind, Result};
use metered::Metered;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Deserializer, Serialize};

/// The most keys that are looked at; files of known formats have a few dozen.
const MAX_KEYS: usize = 4096;

/// The keys that distinguish formats: those of the outermost object, or of the first object in an outermost array.
pub(crate) struct Keys<'a> {
    text: &'a [u8],
    keys: Vec<&'a [u8]>,
    is_list: bool,
}

impl<'a> Keys<'a> {
    /// Returns the keys of `text`, which may be cut off anywhere; `None` if it contains no object.
    pub(crate) fn of(text: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner { text: without_mark(text), at: 0 };
        let is_list = scanner.skip_space()? == b'[';
        scanner.at += usize::from(is_list);
        (scanner.skip_space()? == b'{').then(|| Self { text, keys: scanner.keys(), is_list })
    }

    /// Returns whether the outermost object has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        !self.is_list && self.keys.contains(&key.as_bytes())
    }

    /// Returns whether the outermost array begins with an object that has this key.
    pub(crate) fn items_have(&self, key: &str) -> bool {
        self.is_list && self.keys.contains(&key.as_bytes())
    }

    /// Returns whether `what` occurs anywhere in the text.
    pub(crate) fn mentions(&self, what: &str) -> bool {
        memchr::memmem::find(self.text, what.as_bytes()).is_some()
    }
}

/// Returns whether `head` starts like an object with a key, or like an array of objects.
pub(crate) fn is_json(head: &[u8]) -> bool {
    match without_mark(head).trim_ascii_start() {
        [b'{', rest @ ..] => matches!(rest.trim_ascii_start().first(), Some(b'"')),
        [b'[', rest @ ..] => matches!(rest.trim_ascii_start().first(), Some(b'{')),
        _ => false,
    }
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

    /// Returns the keys of the object at the cursor, as far as the text goes.
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

    /// Reads a string whose opening quote has been read.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = string_end(self.text, start)?;
        Some(&self.text[start..self.at - 1])
    }
}

/// Returns where a string whose text starts at `at` ends, after the closing quote.
pub(crate) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)? + 1;
        if text[at - 1] == b'"' {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns the length of the longest string with escapes.
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

/// Returns `text` without the byte order mark that some editors put in front of it.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Parses all of `text` as a `T`, which is charged to `budget`; `what` names the format in errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8], what: &str, budget: &Budget) -> Result<T> {
    // The parser unescapes a text with escapes in its own memory first.
    let _escaped = budget.lend(longest_escaped(text))?;
    let mut from = serde_json::Deserializer::from_slice(without_mark(text));
    let parsed = parse_seed(std::marker::PhantomData, &mut from, budget);
    parsed.and_then(|parsed| from.end().map(|()| parsed)).map_err(|error| explain(&error, what, budget))
}

pub(crate) fn write(out: &mut dyn io::Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
}

/// Parses a value with `seed`, charged to `budget`.
pub(crate) fn parse_seed<'de, S: DeserializeSeed<'de>, D: Deserializer<'de>>(
    seed: S,
    from: D,
    budget: &Budget,
) -> std::result::Result<S::Value, D::Error> {
    Metered { inner: seed, budget }.deserialize(from)
}

/// Parses a `T` that is charged to a budget, inside a value that is not.
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

/// Explains what is wrong with a JSON text, unless the budget has run out.
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

/// Parses a string that may be missing, null or a number, which some writers use for ids.
pub(crate) fn loose_text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Text(String),
        /// Not a float, which would round large numbers.
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

/// A number as different versions of a tool write it: a float, a text such as `0x1f`, or -1 or null for none.
struct LooseNumber(Option<i64>);

impl<'de> Deserialize<'de> for LooseNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Number;
        impl<'de> serde::de::Visitor<'de> for Number {
            type Value = LooseNumber;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or null")
            }

            fn visit_u64<E>(self, number: u64) -> std::result::Result<LooseNumber, E> {
                Ok(LooseNumber(i64::try_from(number).ok()))
            }

            fn visit_i64<E>(self, number: i64) -> std::result::Result<LooseNumber, E> {
                Ok(LooseNumber((number >= 0).then_some(number)))
            }

            fn visit_f64<E>(self, number: f64) -> std::result::Result<LooseNumber, E> {
                Ok(LooseNumber((number >= 0.0).then_some(number as i64)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<LooseNumber, E> {
                let number = match text.strip_prefix("0x") {
                    Some(hex) => i64::from_str_radix(hex, 16).ok(),
                    None => text.parse().ok(),
                };
                Ok(LooseNumber(number))
            }

            fn visit_unit<E>(self) -> std::result::Result<LooseNumber, E> {
                Ok(LooseNumber(None))
            }
        }
        from.deserialize_any(Number)
    }
}

/// Parses a column of numbers, some of which may be missing.
pub(crate) fn loose_numbers<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Vec<Option<i64>>, D::Error> {
    let numbers: Vec<LooseNumber> = Option::deserialize(from)?.unwrap_or_default();
    Ok(numbers.into_iter().map(|number| number.0).collect())
}

/// Parses a column of indices, some of which may be missing.
pub(crate) fn indices<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<Option<u32>>, D::Error> {
    let numbers: Vec<LooseNumber> = Option::deserialize(from)?.unwrap_or_default();
    Ok(numbers.into_iter().map(|number| u32::try_from(number.0?).ok()).collect())
}

/// Parses a value, or its default where the file has null.
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
        let keys = Keys::of(text).unwrap();
        assert_eq!(keys.keys, [b"a", b"b", b"c", b"e"]);
        assert!(keys.has("a") && !keys.has("d") && !keys.items_have("a"));
        for cut in 0..text.len() {
            Keys::of(&text[..cut]);
        }
        let list = Keys::of(b"[ {\"ph\":1}").unwrap();
        assert!(list.items_have("ph") && !list.has("ph"));
        assert!(Keys::of(b"[1]").is_none());
        assert_eq!(longest_escaped(text), br#"q\"c\":""#.len());
        assert_eq!(longest_escaped(br#"["plain", "cut\n"#), 5);
    }
}
