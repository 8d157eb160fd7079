//! Keeps recently read blocks in memory: blocks never change, so what was read once need not be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::block::{Part, Pool, SharedCode};
use crate::lock::lock;

/// The rows of recently read blocks, by the paths of their files.
#[derive(Debug)]
pub(crate) struct ReadParts {
    state: Mutex<ReadState>,
    code: Mutex<ReadCode>,
    pool: Pool,
    most: usize,
}

/// Recently read shared code, with when it was last used, and its bytes.
#[derive(Debug, Default)]
struct ReadCode {
    by_path: HashMap<String, (Arc<SharedCode>, u64)>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct ReadState {
    parts: HashMap<String, (Arc<Part>, u64)>,
    uses: u64,
    bytes: usize,
}

impl ReadParts {
    /// Creates an empty list of at most this many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), code: Mutex::default(), pool: Pool::default(), most }
    }

    /// Returns what they share.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns shared code that was read before.
    pub(crate) fn code(&self, path: &str) -> Option<Arc<SharedCode>> {
        let mut code = lock(&self.code);
        code.uses += 1;
        let uses = code.uses;
        let (found, last_use) = code.by_path.get_mut(path)?;
        *last_use = uses;
        Some(found.clone())
    }

    /// Keeps shared code, and forgets what was used least recently if there is no room. Returns what is kept; `None` if
    /// there is no room, because others use what is there: that cannot be forgotten.
    pub(crate) fn keep_code(&self, path: &str, new: &Arc<SharedCode>) -> Option<Arc<SharedCode>> {
        let (bytes, most) = (new.memory(), self.most / 2);
        let mut code = lock(&self.code);
        if let Some((known, _)) = code.by_path.get(path) {
            // Another thread has read it at the same time.
            return Some(known.clone());
        }
        while bytes <= most && code.bytes + bytes > most {
            let unused = code.by_path.iter().filter(|(_, (code, _))| Arc::strong_count(code) == 1);
            let oldest = unused.min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone());
            let (removed, _) = code.by_path.remove(&oldest?)?;
            code.bytes = code.bytes.saturating_sub(removed.memory());
        }
        if bytes > most {
            return None;
        }
        code.uses += 1;
        let uses = code.uses;
        code.by_path.insert(path.to_owned(), (new.clone(), uses));
        code.bytes += bytes;
        Some(new.clone())
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Part>> {
        let mut state = lock(&self.state);
        state.uses += 1;
        let uses = state.uses;
        let (part, last_use) = state.parts.get_mut(path)?;
        *last_use = uses;
        Some(part.clone())
    }

    /// Keeps a part until there is no room for it; those that were used least recently are forgotten first.
    pub(crate) fn keep(&self, path: String, part: Part) -> Arc<Part> {
        let part = Arc::new(part);
        let mut state = lock(&self.state);
        state.uses += 1;
        state.bytes += part.bytes();
        let entry = (part.clone(), state.uses);
        if let Some((before, _)) = state.parts.insert(path, entry) {
            state.bytes -= before.bytes();
        }
        if state.bytes + self.pool.bytes() > self.most {
            self.make_room(&mut state);
        }
        part
    }

    /// Forgets parts until the others take half of the room.
    fn make_room(&self, state: &mut ReadState) {
        let mut oldest: Vec<(u64, String)> =
            state.parts.iter().map(|(path, (_, last_use))| (*last_use, path.clone())).collect();
        oldest.sort_unstable();
        for paths in oldest.chunks(oldest.len().div_ceil(8)) {
            self.pool.sweep();
            if state.bytes + self.pool.bytes() <= self.most / 2 {
                break;
            }
            for (_, path) in paths {
                state.bytes -= state.parts.remove(path).map_or(0, |(part, _)| part.bytes());
            }
        }
        self.pool.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{CodeLocation, PartRow};

    fn part() -> Part {
        let row = PartRow { series: 0, stack: 0, time: 0, ids: 0, value: 1 };
        Part { rows: vec![row; 100], ..Part::default() }
    }

    #[test]
    fn those_that_were_used_least_recently_are_forgotten() {
        let read = ReadParts::new(4 * part().bytes());
        ["a", "b", "c", "d"].into_iter().for_each(|path| drop(read.keep(path.to_owned(), part())));
        assert!(read.get("a").is_some());
        read.keep("e".to_owned(), part());
        let has = ["a", "b", "c", "d", "e"].map(|path| read.get(path).is_some());
        assert_eq!(has, [true, false, false, false, true]);
        read.keep("e".to_owned(), part());
        assert_eq!(lock(&read.state).bytes, 2 * part().bytes(), "the same file is counted once");
    }

    #[test]
    fn shared_code_that_somebody_uses_takes_its_room_until_then() {
        let code = || {
            let location = CodeLocation { mapping: "x".repeat(1000), ..CodeLocation::default() };
            Arc::new(SharedCode::new(Vec::new(), vec![(location.hash(), Arc::new(location))]))
        };
        let read = ReadParts::new(4 * code().memory());
        let keep = |path: &str, code: &Arc<SharedCode>| read.keep_code(path, code);
        let [one, two, three] = [code(), code(), code()];
        let is_kept =
            |path, code: &Arc<SharedCode>| keep(path, code).is_some_and(|kept| Arc::ptr_eq(&kept, code));
        assert!(is_kept("one", &one) && is_kept("two", &two));
        assert!(keep("three", &three).is_none(), "both others are in use");
        assert!(read.code("one").is_some());
        drop(two);
        assert!(is_kept("three", &three) && read.code("two").is_none());
        assert!(!is_kept("three", &code()), "the one that was read first is kept");
        assert_eq!(read.code.lock().expect("no panic").bytes, 2 * three.memory());
    }
}
