//! Lists of words, each stored once: stacks, or the names and labels of threads.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Index, hash, memory};

/// The longest list.
const MAX_LENGTH: usize = 0xffff;

/// A store of lists that only grows, up to its capacity. A list is known by the number of its first word, and begins
/// with a word that holds its length and a part of its hash.
pub(crate) struct Records {
    words: &'static [AtomicU64],
    used: AtomicU64,
    index: Index,
}

impl Records {
    /// Makes a store of `words` words for about `lists` lists. Memory is taken as it fills.
    pub(crate) fn new(words: usize, lists: usize) -> io::Result<Self> {
        Ok(Self {
            words: memory::private_words(words)?,
            // No list has the number 0.
            used: AtomicU64::new(1),
            index: Index::new(2 * lists)?,
        })
    }

    /// Returns the number of `list`, which is stored if it is new; 0 when there is no room for it.
    pub(crate) fn number(&self, list: &[u64]) -> u32 {
        let list = &list[..list.len().min(MAX_LENGTH)];
        let hash = hash(list);
        let head = (hash & !0xffff) | list.len() as u64;
        let is_same = |number: u32| {
            let at = number as usize;
            self.words[at].load(Ordering::Acquire) == head
                && list
                    .iter()
                    .zip(&self.words[at + 1..])
                    .all(|(word, known)| known.load(Ordering::Relaxed) == *word)
        };
        self.index.find_or_insert(hash, is_same, || self.store(head, list)).unwrap_or(0)
    }

    fn store(&self, head: u64, list: &[u64]) -> Option<u32> {
        let (length, capacity) = (1 + list.len() as u64, self.words.len() as u64);
        // Once full, the counter must not creep towards an overflow.
        if self.used.load(Ordering::Relaxed) + length > capacity {
            return None;
        }
        let at = self.used.fetch_add(length, Ordering::Relaxed);
        if at + length > capacity {
            return None;
        }
        let start = at as usize;
        for (word, place) in list.iter().zip(&self.words[start + 1..]) {
            place.store(*word, Ordering::Relaxed);
        }
        self.words[start].store(head, Ordering::Release);
        u32::try_from(at).ok()
    }

    /// Returns the list with this number; an empty one for 0.
    pub(crate) fn get(&self, number: u32) -> Vec<u64> {
        let Some(head) = self.words.get(number as usize).filter(|_| number != 0) else { return Vec::new() };
        let length = (head.load(Ordering::Acquire) & 0xffff) as usize;
        let words = self.words[number as usize + 1..].iter().take(length);
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_have_one_number_and_a_full_store_has_none() {
        let records = Records::new(64, 16).expect("memory");
        let first = records.number(&[1, 2, 3]);
        assert_ne!(first, 0);
        assert_eq!(records.number(&[1, 2, 3]), first);
        assert_ne!(records.number(&[1, 2]), first);
        assert_eq!((records.get(first), records.get(0)), (vec![1, 2, 3], Vec::new()));
        assert_eq!(records.number(&[7; 64]), 0, "no room");
        assert_eq!(records.number(&[1, 2, 3]), first, "what is there stays");
        assert_ne!(records.number(&[]), 0, "an empty list is a list");
    }

    #[test]
    fn threads_agree_on_numbers() {
        let records = Records::new(1 << 16, 1 << 10).expect("memory");
        let numbers = || (0..500u64).map(|n| records.number(&[n, n * n, 7])).collect::<Vec<u32>>();
        let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(numbers)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(all.iter().all(|numbers| *numbers == all[0]));
        assert_eq!(records.get(all[0][9]), [9, 81, 7]);
    }
}
