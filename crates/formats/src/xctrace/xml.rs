//! The subset of XML that exported tables use: elements, attributes, text and the five entities.

use flamelet_profile::{Error, ErrorKind, Result};

/// The longest tag; longer ones are refused, since their attributes are copied.
const LONGEST_TAG: usize = 1 << 20;

/// A piece of a document.
pub(super) enum Token<'a> {
    Start(Element<'a>),
    End(&'a str),
    Text(&'a str),
}

/// The start of an element.
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    attributes: &'a str,
}

impl Element<'_> {
    /// Returns the value of an attribute, with its entities resolved.
    pub(super) fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (name, after) = rest.trim_start().split_once('=')?;
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, after) = after[1..].split_once(quote)?;
            if name.trim() == wanted {
                return Some(unescape(value));
            }
            rest = after;
        }
    }
}

/// Returns `text` with its entities resolved.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() <= 8);
        let resolved = entity.and_then(|(name, _)| match name {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => {
                let number = name.strip_prefix('#')?;
                let hex = number.strip_prefix(['x', 'X']).map(|hex| u32::from_str_radix(hex, 16));
                char::from_u32(hex.unwrap_or_else(|| number.parse()).ok()?)
            }
        });
        match (resolved, entity) {
            (Some(c), Some((_, after))) => {
                out.push(c);
                rest = after;
            }
            _ => {
                out.push('&');
                rest = after;
            }
        }
    }
    out + rest
}

/// Iterates over the pieces of a document.
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    /// The element that was written as `<a/>` and still has to be ended.
    ended: Option<&'a str>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, ended: None }
    }

    /// Returns the next piece, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>> {
        if let Some(name) = self.ended.take() {
            return Ok(Some(Token::End(name)));
        }
        loop {
            let Some(open) = memchr::memchr(b'<', self.text) else { return Ok(None) };
            let (before, tag) = self.text.split_at(open);
            if !before.trim_ascii().is_empty() {
                self.text = tag;
                return utf8(before).map(|text| Some(Token::Text(text)));
            }
            if tag.starts_with(b"<!--") {
                self.skip(tag, b"-->")?;
            } else if tag.starts_with(b"<?") || tag.starts_with(b"<!") {
                self.skip(tag, b">")?;
            } else {
                return self.tag(tag).map(Some);
            }
        }
    }

    fn skip(&mut self, tag: &'a [u8], end: &[u8]) -> Result<()> {
        let at = memchr::memmem::find(tag, end).ok_or_else(cut)?;
        self.text = &tag[at + end.len()..];
        Ok(())
    }

    fn tag(&mut self, tag: &'a [u8]) -> Result<Token<'a>> {
        let close = end_of_tag(&tag[..tag.len().min(LONGEST_TAG)]).ok_or_else(cut)?;
        let inside = utf8(&tag[1..close])?;
        self.text = &tag[close + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            return Ok(Token::End(name.trim()));
        }
        let (inside, is_empty) = match inside.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (inside, false),
        };
        let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
        self.ended = is_empty.then_some(name);
        Ok(Token::Start(Element { name, attributes }))
    }
}

/// Returns where the tag ends: at the first `>` outside quotes.
fn end_of_tag(tag: &[u8]) -> Option<usize> {
    let mut quote = None;
    tag.iter().position(|&byte| {
        match (quote, byte) {
            (None, b'>') => return true,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        false
    })
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::Corrupt, "the XML is not UTF-8"))
}

fn cut() -> Error {
    Error::new(ErrorKind::Truncated, "the XML ends in the middle of a tag")
}
