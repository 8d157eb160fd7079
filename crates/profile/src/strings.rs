//! The interned strings of one profile: one arena of text, one array of ends.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::budget::hash_entry;
use crate::{Budget, StringId};

/// What a string costs in addition to its text.
const STRING: usize = size_of::<u32>() + hash_entry(size_of::<StringId>());

/// Strings stored once each, so that two [`StringId`]s are equal exactly when their texts are.
#[derive(Clone)]
pub struct StringTable {
    text: String,
    ends: Vec<u32>,
    ids: HashTable<StringId>,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self { text: String::new(), ends: Vec::new(), ids: HashTable::new() };
        table.intern("");
        table
    }
}

impl StringTable {
    /// Creates a table with room for about `strings` strings of `bytes` bytes in total.
    pub fn with_capacity(strings: usize, bytes: usize) -> Self {
        let mut table = Self {
            text: String::with_capacity(bytes),
            ends: Vec::with_capacity(strings + 1),
            ids: HashTable::with_capacity(strings + 1),
        };
        table.intern("");
        table
    }

    /// Returns the id of `string`, which is stored if it is new.
    ///
    /// # Panics
    /// When the table would grow beyond 4 GiB of text. Readers of files use [`StringTable::intern_within`].
    pub fn intern(&mut self, string: &str) -> StringId {
        self.intern_if(string, |_| true).unwrap_or_default()
    }

    /// Like [`StringTable::intern`], but returns `None` if the budget has no room for a new string.
    pub fn intern_within(&mut self, string: &str, budget: &Budget) -> Option<StringId> {
        self.intern_if(string, |text| {
            budget.has_ids(text.len() + string.len()) && budget.has_room(STRING + string.len())
        })
    }

    fn intern_if(&mut self, string: &str, has_room: impl FnOnce(&str) -> bool) -> Option<StringId> {
        let hash = FxBuildHasher.hash_one(string);
        let (text, ends) = (&mut self.text, &mut self.ends);
        if let Some(&id) = self.ids.find(hash, |&id| slice(text, ends, id) == string) {
            return Some(id);
        }
        if !has_room(text) {
            return None;
        }
        let id = StringId::from_index(ends.len());
        text.push_str(string);
        ends.push(u32::try_from(text.len()).expect("a string table holds less than 4 GiB"));
        self.ids.insert_unique(hash, id, |&id| FxBuildHasher.hash_one(slice(text, ends, id)));
        Some(id)
    }

    /// Returns about how much memory the table takes, in bytes.
    pub(crate) fn byte_size(&self) -> usize {
        // The index has an id and one byte of hash for each slot.
        self.text.len() + size_of_val(&*self.ends) + self.ids.capacity() * (size_of::<StringId>() + 1)
    }

    /// Returns the id of `string` if it is stored.
    pub fn find(&self, string: &str) -> Option<StringId> {
        let hash = FxBuildHasher.hash_one(string);
        self.ids.find(hash, |&id| slice(&self.text, &self.ends, id) == string).copied()
    }

    /// Returns the text of `id`.
    pub fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id)
    }

    /// Returns how many strings there are, including the empty one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether only the empty string is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Returns every string in the order of its id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(StringId::from_index(index)))
    }
}

fn slice<'a>(text: &'a str, ends: &[u32], id: StringId) -> &'a str {
    let index = id.index();
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &text[start..ends[index] as usize]
}

impl std::fmt::Debug for StringTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id() {
        let mut table = StringTable::default();
        let a = table.intern("alpha");
        let b = table.intern("beta");
        assert_ne!(a, b);
        assert_eq!(table.intern("alpha"), a);
        assert_eq!(table.get(b), "beta");
        assert_eq!(table.find("gamma"), None);
        assert_eq!(table.intern(""), StringId::EMPTY);
        assert_eq!(table.iter().collect::<Vec<_>>(), ["", "alpha", "beta"]);
    }
}
