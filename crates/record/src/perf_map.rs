//! `/tmp/perf-PID.map`, in which a JIT compiler tells the names of the code that it made.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// More than any such file is read; one that never ends must not be.
const MOST_BYTES: u64 = 256 << 20;

/// The functions of one process, by address.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    /// Start, end, name. Later lines come later: code is thrown away and its memory used again.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the map of `pid`, where it is still running in its own view of the files, else in ours.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        let inner = inner_pid(pid);
        let places = [format!("/proc/{pid}/root/tmp/perf-{inner}.map"), format!("/tmp/perf-{pid}.map")];
        let file = places.iter().find_map(|place| File::open(place).ok())?;
        Some(Self::read(file.take(MOST_BYTES)))
    }

    fn read(list: impl Read) -> Self {
        let mut list = BufReader::new(list);
        let mut functions = Vec::new();
        let mut line = Vec::new();
        while list.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            functions.extend(parse(&String::from_utf8_lossy(&line)));
            line.clear();
        }
        functions.sort_by_key(|(start, ..)| *start);
        Self { functions }
    }

    /// The function at `address`; the one that was made last if there were several.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let near = self.functions[..after].iter().rev().take(64);
        near.into_iter().find(|(_, end, _)| address < *end).map(|(.., name)| name.as_str())
    }
}

/// `START SIZE name`, in hexadecimal.
fn parse(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim();
    (!name.is_empty()).then(|| (start, start.saturating_add(size), name.to_owned()))
}

/// The number of the process in its own container.
fn inner_pid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_range_and_the_latest_wins() {
        let map = PerfMap::read("1000 20 first\n0x2000 10 a b c\nnonsense\n1000 20 second\n".as_bytes());
        assert_eq!(map.name(0x101f), Some("second"));
        assert_eq!(map.name(0x1020), None);
        assert_eq!(map.name(0x2000), Some("a b c"));
        assert_eq!(map.name(0x10), None);
    }
}
