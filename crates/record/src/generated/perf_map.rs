//! `/tmp/perf-PID.map`, in which a runtime lists the names of its code.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::list::CodeList;
use super::{Generator, MOST_BYTES};

/// The longest line that is read. The rest of a longer one is skipped.
const LONGEST: u64 = 64 << 10;

/// Reads the map of a process, whose pid may be another one in its container, into `list`. Returns `None` if there is
/// none.
pub(super) fn read(generator: &Generator, list: &mut CodeList) -> Option<()> {
    let pid = generator.pid;
    let theirs = format!("/tmp/perf-{}.map", inner_pid(pid));
    let file = generator.open(Path::new(&theirs), Path::new(&format!("/tmp/perf-{pid}.map")))?;
    functions(file.take(MOST_BYTES), list);
    Some(())
}

pub(super) fn functions(file: impl Read, list: &mut CodeList) {
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    while !list.is_cut() && next_line(&mut file, &mut line) {
        if let Some((start, size, name)) = parse(&String::from_utf8_lossy(&line)) {
            list.add_named(start, size, name);
        }
    }
}

/// Reads a line. Returns whether there was one.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> bool {
    line.clear();
    let length = file.take(LONGEST).read_until(b'\n', line);
    let is_whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
    length.is_ok_and(|length| length > 0) && (is_whole || file.skip_until(b'\n').is_ok())
}

/// Parses `START SIZE name`, in hexadecimal.
fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim();
    (!name.is_empty()).then_some((start, size, name))
}

/// Returns the pid of the process in its own container.
fn inner_pid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

#[cfg(test)]
mod tests {
    use super::super::MOST_OF_ONE;
    use super::*;

    fn read(file: impl Read) -> CodeList {
        let mut list = CodeList::new(MOST_OF_ONE);
        functions(file, &mut list);
        list
    }

    #[test]
    fn lines_with_a_range_and_a_name_are_taken() {
        let list = read("1000 20 first\n0x2000 10 a b c\nnonsense\n3000 zz f\n4000 10 \n".as_bytes());
        let expected = [(0x1000, 0x1020, "first"), (0x2000, 0x2010, "a b c")];
        let found = list.functions.iter().map(|function| (function.start, function.end, &*function.name));
        assert!(found.eq(expected) && !list.is_cut(), "{list:?}");
    }

    #[test]
    fn tiny_lines_end_at_the_limit() {
        const LINE: &[u8] = b"1 1 f\n";
        let list = read(LINE.repeat(1 << 20).as_slice());
        assert!(list.is_cut() && list.functions.len() > 100_000, "{}", list.functions.len());
        assert!(list.functions.capacity() * size_of::<super::super::GeneratedFunction>() < MOST_OF_ONE);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let long = [&b"1000 20 "[..], &[b'x'; 3 << 20], b"\n2000 10 next\n3000 10 last"].concat();
        let list = read(&long[..]);
        let found: Vec<_> =
            list.functions.iter().map(|function| (function.start, function.name.len())).collect();
        assert_eq!(found, [(0x1000, LONGEST as usize - 8), (0x2000, 4), (0x3000, 4)]);
    }
}
