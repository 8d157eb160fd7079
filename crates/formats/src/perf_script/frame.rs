//! Parses the lines of frames, and remembers the location of each.

use std::hash::BuildHasher;

use flamelet_profile::LocationId;
use flamelet_profile::budget::hash_entry;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::number::{hex, words};

/// A frame line: `ADDRESS SYMBOL+0xOFFSET (MODULE)`.
pub(super) struct FrameLine<'a> {
    pub(super) address: u64,
    pub(super) symbol: &'a [u8],
    pub(super) module: &'a [u8],
}

pub(super) fn parse_frame(line: &[u8]) -> Option<FrameLine<'_>> {
    let line = line.trim_ascii();
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let address = hex(&line[..end])?;
    let (symbol, module) = split_module(line[end..].trim_ascii());
    Some(FrameLine { address, symbol: strip_offset(symbol), module })
}

fn split_module(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(inside) = text.strip_suffix(b")") else { return (text, b"") };
    let (inside, deleted) = match inside.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (inside, false),
    };
    match memchr::memmem::rfind(inside, b" (") {
        Some(at) => (text[..at].trim_ascii_end(), &inside[at + 2..]),
        // A module without a symbol.
        None if inside.first() == Some(&b'(') => (b"", &inside[1..]),
        None if deleted => (text, b""),
        None => (text, b""),
    }
}

fn strip_offset(symbol: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(symbol, b"+0x") {
        Some(at) if at > 0 && hex(&symbol[at + 3..]).is_some() => &symbol[..at],
        _ => symbol,
    }
}

/// Returns the address at the start of a frame's line; other lines do not start with one.
pub(super) fn address_of(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    hex(&line[..end])
}

/// Returns whether `line` is a frame below a sample's first line.
pub(super) fn is_frame(line: &[u8]) -> bool {
    if !matches!(line.first(), Some(b' ' | b'\t')) {
        return false;
    }
    let mut words = words(line);
    words.next().is_some_and(|word| hex(word).is_some()) && words.next().is_some()
}

/// Returns whether `line` is a frame whose indentation was lost, as in text that was pasted or trimmed: it ends with its
/// module.
pub(super) fn is_bare_frame(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let mut words = words(line);
    words.next().is_some_and(|word| hex(word).is_some()) && words.next().is_some() && line.ends_with(b")")
}

/// Finds the location of a frame seen before. Only a hash of its text is kept with the address: a file with many
/// addresses is read faster without comparing the text of each, and a wrong result would require two texts that share
/// both.
#[derive(Default)]
pub(super) struct KnownFrames {
    table: HashTable<Known>,
}

struct Known {
    hash: u64,
    address: u64,
    location: LocationId,
}

#[derive(Clone, Copy)]
pub(super) struct FrameKey {
    hash: u64,
    address: u64,
}

impl FrameKey {
    /// Returns the key of a frame at `address` with this text.
    pub(super) fn new(address: u64, text: &[u8]) -> Self {
        Self { hash: FxBuildHasher.hash_one(text), address }
    }

    pub(super) fn address(self) -> u64 {
        self.address
    }
}

impl KnownFrames {
    /// What a frame costs.
    pub(super) const ENTRY: usize = hash_entry(size_of::<Known>());

    pub(super) fn get(&self, key: FrameKey) -> Option<LocationId> {
        let found = self.table.find(key.hash, |known| (known.hash, known.address) == (key.hash, key.address));
        found.map(|known| known.location)
    }

    /// Stores a frame that was not found.
    pub(super) fn insert(&mut self, key: FrameKey, location: LocationId) {
        let known = Known { hash: key.hash, address: key.address, location };
        self.table.insert_unique(key.hash, known, |known| known.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_layout() {
        let frame = |line: &str| {
            let frame = parse_frame(line.as_bytes()).expect("a frame");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (frame.address, text(frame.symbol), text(frame.module))
        };
        assert_eq!(
            frame("\t 16734 fixture::leaf+0x24 (/tmp/x)"),
            (0x16734, "fixture::leaf".into(), "/tmp/x".into())
        );
        assert_eq!(frame(" 7f [unknown] ([unknown])"), (0x7f, "[unknown]".into(), "[unknown]".into()));
        assert_eq!(frame(" 1 a(int) const+0x1 (/b (deleted))"), (1, "a(int) const".into(), "/b".into()));
        assert_eq!(frame(" 1 foo (inlined)"), (1, "foo".into(), "inlined".into()));
        assert_eq!(frame(" 1 (/lib/a b.so)"), (1, String::new(), "/lib/a b.so".into()));
    }
}
