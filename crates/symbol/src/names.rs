//! Function and file names, each demangled and stored once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::demangle::{Demangle, profile_names};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionNames {
    pub(crate) name: Arc<str>,
    pub(crate) system_name: Arc<str>,
}

/// The longest name that is kept. A small file may have any number of long ones, which overlap in it.
const LONGEST_NAME: usize = 64 << 10;

/// Interns strings and demangles symbols.
pub(crate) struct NameTable {
    how: Demangle,
    functions: FxHashMap<Box<[u8]>, FunctionNames>,
    strings: FxHashMap<Box<str>, Arc<str>>,
    empty: Arc<str>,
    memory: usize,
    /// When it takes this many bytes, new names are empty.
    most: usize,
    is_full: bool,
}

impl NameTable {
    pub(crate) fn new(how: Demangle) -> Self {
        Self {
            how,
            functions: FxHashMap::default(),
            strings: FxHashMap::default(),
            empty: "".into(),
            memory: 0,
            most: usize::MAX,
            is_full: false,
        }
    }

    /// Returns roughly how many bytes the names take.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Lets the table accept this many more bytes of names.
    pub(crate) fn make_room(&mut self, bytes: u64) {
        self.most = self.memory.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Returns whether there was no room for a name since this was asked last.
    pub(crate) fn take_full(&mut self) -> bool {
        std::mem::take(&mut self.is_full)
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = self.memory.saturating_add(bytes) <= self.most;
        self.is_full |= !has_room;
        has_room
    }

    pub(crate) fn empty(&self) -> Arc<str> {
        self.empty.clone()
    }

    pub(crate) fn function(&mut self, symbol: &[u8]) -> FunctionNames {
        let symbol = &symbol[..symbol.len().min(LONGEST_NAME)];
        if let Some(known) = self.functions.get(symbol) {
            return known.clone();
        }
        let memory = symbol.len() + 64;
        if !self.has_room(memory) {
            return FunctionNames { name: self.empty(), system_name: self.empty() };
        }
        let text = String::from_utf8_lossy(symbol);
        let (name, system_name) = profile_names(&text, self.how);
        let name: Arc<str> = self.string(&name);
        let system_name = if *name == *system_name { name.clone() } else { self.string(system_name) };
        let names = FunctionNames { name, system_name };
        // A name without room is asked for again when there is some.
        let is_whole = !names.name.is_empty() && !names.system_name.is_empty();
        if is_whole && self.has_room(memory) {
            self.memory += memory;
            self.functions.insert(symbol.into(), names.clone());
        }
        names
    }

    /// Returns the shared copy of `text`.
    pub(crate) fn string(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return self.empty();
        }
        let end = (0..=text.len().min(LONGEST_NAME)).rev().find(|&end| text.is_char_boundary(end));
        let text = &text[..end.unwrap_or(0)];
        if let Some(known) = self.strings.get(text) {
            return known.clone();
        }
        if !self.has_room(2 * text.len() + 64) {
            return self.empty();
        }
        let shared: Arc<str> = text.into();
        self.memory += 2 * text.len() + 64;
        self.strings.insert(text.into(), shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_take_no_more_than_their_room() {
        const MOST: u64 = 1 << 20;
        let mut names = NameTable::new(Demangle::Full);
        names.make_room(MOST);
        let long = "é".repeat(LONGEST_NAME);
        for number in 0..100 {
            // Cut in the middle of a character, and at its end.
            let name = format!("{number:0$}{long}", 4 + number % 2);
            names.function(name.as_bytes());
            names.string(&name);
        }
        let text = |names: &NameTable| {
            let strings = names.strings.iter().map(|(key, value)| key.len() + value.len());
            strings.sum::<usize>() + names.functions.keys().map(|key| key.len()).sum::<usize>()
        };
        assert!(text(&names) as u64 <= MOST && names.memory() as u64 <= MOST, "{}", text(&names));
        assert!(names.strings.keys().all(|name| (LONGEST_NAME - 3..=LONGEST_NAME).contains(&name.len())));
        assert!(names.take_full() && !names.take_full());
        names.make_room(MOST);
        assert_eq!(names.string(&"x".repeat(1000)).len(), 1000);
    }
}
