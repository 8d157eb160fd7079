//! Rows of different lengths in one array, each stored once.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A flat array of rows of different lengths.
#[derive(Clone, Debug)]
pub(crate) struct Rows<T> {
    pub(crate) ends: Vec<u32>,
    pub(crate) items: Vec<T>,
    /// How many items at least the end of each row shares with the row before, as far as that is known.
    pub(crate) shared: Vec<u16>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), items: Vec::new(), shared: Vec::new() }
    }
}

impl<T: PartialEq> PartialEq for Rows<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends && self.items == other.items
    }
}

impl<T: Eq> Eq for Rows<T> {}

impl<T> Rows<T> {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn byte_size(&self) -> usize {
        size_of_val(&*self.ends) + size_of_val(&*self.items) + size_of_val(&*self.shared)
    }

    pub(crate) fn get(&self, index: usize) -> &[T] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.items[start..self.ends[index] as usize]
    }

    /// Returns how many items at least the ends of two rows share; all of them unless `other` is the row before `index`.
    pub(crate) fn shared_end(&self, index: usize, other: usize) -> usize
    where
        T: PartialEq,
    {
        match self.shared.get(index).filter(|_| index == other + 1) {
            Some(&known) => known.into(),
            None => shared_end(self.get(index), self.get(other)),
        }
    }

    /// Ends the row that was being pushed to `items`.
    pub(crate) fn finish_row(&mut self) -> usize {
        self.ends.push(u32::try_from(self.items.len()).expect("a profile holds fewer than 2^32 frames"));
        self.ends.len() - 1
    }

    pub(crate) fn push(&mut self, row: &[T]) -> usize
    where
        T: Clone,
    {
        self.items.extend_from_slice(row);
        self.finish_row()
    }
}

/// Returns how many items the ends of two rows share.
fn shared_end<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    // Eight at a time, without a branch for each: nearly all are the same.
    let (blocks, other_blocks) = (one.as_rchunks::<8>().1, other.as_rchunks::<8>().1);
    let is_same =
        |(a, b): &(&[T; 8], &[T; 8])| std::iter::zip(*a, *b).fold(true, |is_same, (a, b)| is_same & (a == b));
    let same = 8 * std::iter::zip(blocks.iter().rev(), other_blocks.iter().rev()).take_while(is_same).count();
    let rest = std::iter::zip(one[..one.len() - same].iter().rev(), other[..other.len() - same].iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Finds equal rows of a [`Rows`], so that each is stored once.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowIndex {
    rows: HashTable<u32>,
}

impl RowIndex {
    fn find_hashed<T: Eq>(&self, table: &Rows<T>, row: &[T], hash: u64) -> Option<usize> {
        self.rows.find(hash, |&at| table.get(at as usize) == row).map(|&at| at as usize)
    }

    /// Returns the number of `row`, which is stored if it is new.
    pub(crate) fn intern<T: Clone + Eq + Hash>(&mut self, table: &mut Rows<T>, row: &[T]) -> usize {
        self.intern_if(table, row, || true).unwrap_or(0)
    }

    /// Like [`RowIndex::intern`], but stores a new row only if `has_room`.
    pub(crate) fn intern_if<T: Clone + Eq + Hash>(
        &mut self,
        table: &mut Rows<T>,
        row: &[T],
        has_room: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let hash = FxBuildHasher.hash_one(row);
        if let Some(found) = self.find_hashed(table, row, hash) {
            return Some(found);
        }
        if !has_room() {
            return None;
        }
        let at = table.push(row);
        self.rows.insert_unique(hash, at as u32, |&at| FxBuildHasher.hash_one(table.get(at as usize)));
        Some(at)
    }
}

/// Lists of different lengths, each stored once and identified by its number, such as the stacks of a capture.
#[derive(Clone, Debug, Default)]
pub struct InternedLists<T> {
    rows: Rows<T>,
    index: RowIndex,
}

impl<T: Clone + Eq + Hash> InternedLists<T> {
    /// Returns the number of `list`, which is stored if it is new. Numbers count from 0.
    ///
    /// # Panics
    /// When all lists together would hold more than 2^32 items.
    pub fn intern(&mut self, list: &[T]) -> u32 {
        self.index.intern(&mut self.rows, list) as u32
    }

    /// Returns the number of `list` if it is stored.
    pub fn find(&self, list: &[T]) -> Option<u32> {
        self.index.find_hashed(&self.rows, list, FxBuildHasher.hash_one(list)).map(|at| at as u32)
    }

    /// Returns the list with this number.
    pub fn get(&self, number: u32) -> &[T] {
        self.rows.get(number as usize)
    }

    /// Returns how many lists there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no lists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many items all lists hold together.
    pub fn item_count(&self) -> usize {
        self.rows.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{InternedLists, Rows};

    #[test]
    fn shared_items_are_counted_from_the_end() {
        let row: Vec<u32> = (0..30).collect();
        for length in 0..=row.len() {
            for shared in 0..=length {
                let mut other = row[row.len() - length..].to_vec();
                if shared < length {
                    other[length - shared - 1] = 99;
                }
                let mut rows = Rows::default();
                rows.push(&row);
                rows.push(&other);
                assert_eq!(rows.shared_end(0, 1), shared, "{shared} of {length}");
                assert_eq!(rows.shared_end(1, 0), shared, "{shared} of {length}");
            }
        }
    }

    #[test]
    fn equal_lists_share_a_number() {
        let mut lists = InternedLists::default();
        assert!(lists.is_empty());
        let numbers = [&[1u64, 2][..], &[], &[1, 3], &[1, 2], &[]].map(|list| lists.intern(list));
        assert_eq!(numbers, [0, 1, 2, 0, 1]);
        assert_eq!((lists.len(), lists.item_count()), (3, 4));
        assert_eq!((lists.get(2), lists.find(&[1, 3]), lists.find(&[3])), (&[1, 3][..], Some(2), None));
    }
}
