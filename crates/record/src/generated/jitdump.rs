//! `jit-PID.dump`, in which a runtime writes its code and names as it generates them (node `--perf-prof`, Java with
//! perf's agent, Python `-X perf_jit`). The runtime maps a page of the file executable, so that recorders see where it
//! is.

use std::io::{BufReader, Read};
use std::path::Path;

use rustc_hash::FxHashMap;

use super::{Function, Generator, MOST_BYTES};

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

/// Reads the list of a process.
pub(super) fn read(generator: &Generator) -> Option<Vec<Function>> {
    let path: &Path = generator.jitdump.as_deref()?;
    let file = generator.open(path, path)?;
    functions(BufReader::new(file.take(MOST_BYTES)))
}

/// Reads the functions of a list, up to its end or the first record that is damaged. The last one may be half
/// written.
fn functions(mut list: impl Read) -> Option<Vec<Function>> {
    let mut header = [0; HEADER];
    list.read_exact(&mut header).ok()?;
    let rest = (u32_at(&header, 8)? as usize).checked_sub(HEADER)?;
    if u32_at(&header, 0)? != MAGIC || !skip(&mut list, rest) {
        return None;
    }
    let mut functions = Loaded::default();
    while let Some(()) = next(&mut list, &mut functions) {}
    Some(functions.list)
}

/// The functions so far.
#[derive(Default)]
struct Loaded {
    list: Vec<Function>,
    /// The last one at each address.
    by_start: FxHashMap<u64, usize>,
}

impl Loaded {
    fn add(&mut self, start: u64, size: u64, name: String) {
        self.by_start.insert(start, self.list.len());
        self.list.push(Function { start, end: start.saturating_add(size), name });
    }
}

/// Reads one record. Returns `None` at the end.
fn next(list: &mut impl Read, functions: &mut Loaded) -> Option<()> {
    let mut header = [0; RECORD_HEADER];
    list.read_exact(&mut header).ok()?;
    let (kind, size) = (u32_at(&header, 0)?, u32_at(&header, 4)? as usize);
    let size = size.checked_sub(RECORD_HEADER)?;
    let mut record = Vec::new();
    if kind == CODE_LOAD || kind == CODE_MOVE {
        let wanted = size.min(LONGEST);
        list.take(wanted as u64).read_to_end(&mut record).ok().filter(|&length| length == wanted)?;
    }
    let rest = size - record.len();
    match kind {
        CODE_LOAD => loaded(&record, functions),
        CODE_MOVE => moved(&record, functions),
        _ => Some(()),
    };
    skip(list, rest).then_some(())
}

fn loaded(record: &[u8], functions: &mut Loaded) -> Option<()> {
    let (start, size) = (u64_at(record, 16)?, u64_at(record, 24)?);
    let name = record.get(LOAD..)?.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())?;
    functions.add(start, size, String::from_utf8_lossy(name).into_owned());
    Some(())
}

/// Adds a function at the place to which it was moved.
fn moved(record: &[u8], functions: &mut Loaded) -> Option<()> {
    let (from, start, size) = (u64_at(record, 16)?, u64_at(record, 24)?, u64_at(record, 32)?);
    let name = functions.list[*functions.by_start.get(&from)?].name.clone();
    functions.add(start, size, name);
    Some(())
}

fn skip(list: &mut impl Read, length: usize) -> bool {
    let skipped = std::io::copy(&mut list.take(length as u64), &mut std::io::sink());
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
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_HEADER + body.len()) as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 8], body].concat()
    }

    fn load(start: u64, code: &[u8], name: &str) -> Vec<u8> {
        let numbers = [0, start, start, code.len() as u64, 1].map(u64::to_ne_bytes).concat();
        record(CODE_LOAD, &[&numbers[..], name.as_bytes(), &[0], code].concat())
    }

    fn list() -> Vec<u8> {
        let mut header = [MAGIC, 1, HEADER as u32].map(u32::to_ne_bytes).concat();
        header.resize(HEADER, 0);
        let moved = [0u64, 0x9000, 0x1000, 0x9000, 4, 1].map(u64::to_ne_bytes).concat();
        [
            header,
            load(0x1000, &[0xc3; 4], "first"),
            record(2, &[0xff; 100]),
            load(0x2000, &[0xc3; 100_000], "large"),
            record(CODE_MOVE, &moved),
        ]
        .concat()
    }

    #[test]
    fn loads_and_moves_have_names() {
        let found = functions(&list()[..]).expect("a list");
        let found: Vec<_> = found.iter().map(|f| (f.start, f.end - f.start, f.name.as_str())).collect();
        assert_eq!(found, [(0x1000, 4, "first"), (0x2000, 100_000, "large"), (0x9000, 4, "first")]);
    }

    #[test]
    fn a_list_that_is_cut_or_damaged_gives_what_came_before() {
        let list = list();
        for length in 0..300 {
            let found = functions(&list[..length]).unwrap_or_default();
            assert!(found.len() <= 1, "{length}: {found:?}");
        }
        for at in 0..300 {
            let mut damaged = list.clone();
            damaged[at] ^= 0xff;
            let _ = functions(&damaged[..]);
        }
        assert_eq!(functions(&b"perf map\n"[..]), None);
    }

    #[test]
    fn lists_are_known_by_their_names() {
        assert!(is_name("/home/me/.debug/jit/jit-1234.dump") && is_name("jit-1.dump"));
        assert!(!is_name("/tmp/jit-.dump") && !is_name("/tmp/jit-1.dump.gz") && !is_name("/tmp/jit-a.dump"));
    }
}
