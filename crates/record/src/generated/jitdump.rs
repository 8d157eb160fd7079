//! `jit-PID.dump`, in which a runtime writes its code and names as it generates them (node `--perf-prof`, Java with
//! perf's agent, Python `-X perf_jit`). The runtime maps a page of the file executable, so that recorders see where it
//! is.

use std::io::{BufReader, Read};
use std::path::Path;

use flamelet_profile::budget::hash_entry;
use rustc_hash::FxHashMap;

use super::list::CodeList;
use super::{Generator, MOST_BYTES};

/// `JiTD` as a number in the order of this machine's bytes.
const MAGIC: u32 = 0x4A69_5444;
const HEADER: usize = 40;
const RECORD_HEADER: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
/// A load: pid, tid, address, address again, size, number; then the name and the code.
const LOAD: usize = 40;
/// The longest name, and the largest move, that is read.
const LONGEST: usize = 16 << 10;

/// Returns whether a mapped file is such a list, by its name.
pub(super) fn is_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads the list of a process into `list`. Returns `None` if there is none.
pub(super) fn read(generator: &Generator, list: &mut CodeList) -> Option<()> {
    let path: &Path = generator.jitdump.as_deref()?;
    let file = generator.open(path, path)?;
    functions(BufReader::new(file.take(MOST_BYTES)), list)
}

/// Reads the functions of a file, up to its end or the first record that is damaged. The last one may be half
/// written.
pub(super) fn functions(mut file: impl Read, list: &mut CodeList) -> Option<()> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    let rest = (u32_at(&header, 8)? as usize).checked_sub(HEADER)?;
    if u32_at(&header, 0)? != MAGIC || !skip(&mut file, rest) {
        return None;
    }
    let mut loaded = Loaded { list, by_start: FxHashMap::default() };
    while !loaded.list.is_cut() && next(&mut file, &mut loaded).is_some() {}
    Some(())
}

/// The functions so far.
struct Loaded<'l> {
    list: &'l mut CodeList,
    /// The last one at each address.
    by_start: FxHashMap<u64, usize>,
}

impl Loaded<'_> {
    /// Notes that the function that was added last is the latest at its address.
    fn note(&mut self, start: u64) {
        const ENTRY: usize = hash_entry(size_of::<(u64, usize)>());
        if self.list.has_room(ENTRY) {
            self.by_start.insert(start, self.list.functions.len() - 1);
        }
    }
}

/// Reads one record. Returns `None` at the end.
fn next(file: &mut impl Read, loaded: &mut Loaded) -> Option<()> {
    let mut header = [0; RECORD_HEADER];
    file.read_exact(&mut header).ok()?;
    let (kind, size) = (u32_at(&header, 0)?, u32_at(&header, 4)? as usize);
    let size = size.checked_sub(RECORD_HEADER)?;
    let mut record = Vec::new();
    if kind == CODE_LOAD || kind == CODE_MOVE {
        let wanted = size.min(LONGEST);
        file.take(wanted as u64).read_to_end(&mut record).ok().filter(|&length| length == wanted)?;
    }
    let rest = size - record.len();
    match kind {
        CODE_LOAD => add_loaded(&record, loaded),
        CODE_MOVE => add_moved(&record, loaded),
        _ => Some(()),
    };
    skip(file, rest).then_some(())
}

fn add_loaded(record: &[u8], loaded: &mut Loaded) -> Option<()> {
    let (start, size) = (u64_at(record, 16)?, u64_at(record, 24)?);
    let name = record.get(LOAD..)?.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())?;
    loaded.list.add_named(start, size, &String::from_utf8_lossy(name)).then(|| loaded.note(start))
}

/// Adds a function at the place to which it was moved.
fn add_moved(record: &[u8], loaded: &mut Loaded) -> Option<()> {
    let (from, start, size) = (u64_at(record, 16)?, u64_at(record, 24)?, u64_at(record, 32)?);
    let name = loaded.list.functions[*loaded.by_start.get(&from)?].name.clone();
    loaded.list.add(start, size, name).then(|| loaded.note(start))
}

fn skip(file: &mut impl Read, length: usize) -> bool {
    let skipped = std::io::copy(&mut file.take(length as u64), &mut std::io::sink());
    skipped.is_ok_and(|skipped| skipped == length as u64)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::MOST_OF_ONE;
    use super::*;

    fn read(file: &[u8]) -> Option<CodeList> {
        let mut list = CodeList::new(MOST_OF_ONE);
        functions(file, &mut list).map(|()| list)
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_HEADER + body.len()) as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 8], body].concat()
    }

    fn load(start: u64, code: &[u8], name: &str) -> Vec<u8> {
        let numbers = [0, start, start, code.len() as u64, 1].map(u64::to_ne_bytes).concat();
        record(CODE_LOAD, &[&numbers[..], name.as_bytes(), &[0], code].concat())
    }

    fn moved(from: u64, to: u64) -> Vec<u8> {
        record(CODE_MOVE, &[0, to, from, to, 4, 1].map(u64::to_ne_bytes).concat())
    }

    fn header() -> Vec<u8> {
        let mut header = [MAGIC, 1, HEADER as u32].map(u32::to_ne_bytes).concat();
        header.resize(HEADER, 0);
        header
    }

    fn list() -> Vec<u8> {
        [
            header(),
            load(0x1000, &[0xc3; 4], "first"),
            record(2, &[0xff; 100]),
            load(0x2000, &[0xc3; 100_000], "large"),
            moved(0x1000, 0x9000),
        ]
        .concat()
    }

    #[test]
    fn loads_and_moves_have_names() {
        let found = read(&list()).expect("a list");
        let found: Vec<_> = found.functions.iter().map(|f| (f.start, f.end - f.start, &*f.name)).collect();
        assert_eq!(found, [(0x1000, 4, "first"), (0x2000, 100_000, "large"), (0x9000, 4, "first")]);
    }

    #[test]
    fn a_list_that_is_cut_or_damaged_gives_what_came_before() {
        let list = list();
        for length in 0..300 {
            let found = read(&list[..length]).map(|list| list.functions).unwrap_or_default();
            assert!(found.len() <= 1, "{length}: {found:?}");
        }
        for at in 0..300 {
            let mut damaged = list.clone();
            damaged[at] ^= 0xff;
            let _ = read(&damaged);
        }
        assert!(read(b"perf map\n").is_none());
    }

    #[test]
    fn moves_share_a_name_and_end_at_the_limit() {
        let long = "x".repeat(LONGEST / 2);
        let first = [header(), load(0, &[], &long)].concat();
        let moves = |count| (1..=count).flat_map(|to| moved(to - 1, to));
        // 10 MB of moves of one long name, which would take 1.3 GB as copies.
        let few: Vec<u8> = first.iter().copied().chain(moves(150_000)).collect();
        let list = read(&few).expect("a list");
        assert_eq!((list.functions.len(), list.is_cut()), (150_001, false));
        assert!(
            list.functions
                .iter()
                .all(|function| std::sync::Arc::ptr_eq(&function.name, &list.functions[0].name))
        );
        assert!(list.used() < MOST_OF_ONE, "{}", list.used());

        let many: Vec<u8> = first.into_iter().chain(moves(800_000)).collect();
        let list = read(&many).expect("a list");
        assert!(list.is_cut() && list.functions.len() > 150_001);
        assert!(list.functions.capacity() * size_of::<super::super::GeneratedFunction>() < MOST_OF_ONE);
    }

    #[test]
    fn lists_are_known_by_their_names() {
        assert!(is_name("/home/me/.debug/jit/jit-1234.dump") && is_name("jit-1.dump"));
        assert!(!is_name("/tmp/jit-.dump") && !is_name("/tmp/jit-1.dump.gz") && !is_name("/tmp/jit-a.dump"));
    }
}
