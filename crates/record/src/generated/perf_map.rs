//! `/tmp/perf-PID.map`, in which a runtime lists the names of its code.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{Function, Generator, MOST_BYTES};

/// Reads the map of a process, whose pid may be another one in its container.
pub(super) fn read(generator: &Generator) -> Option<Vec<Function>> {
    let pid = generator.pid;
    let theirs = format!("/tmp/perf-{}.map", inner_pid(pid));
    let file = generator.open(Path::new(&theirs), Path::new(&format!("/tmp/perf-{pid}.map")))?;
    Some(functions(file.take(MOST_BYTES)))
}

fn functions(list: impl Read) -> Vec<Function> {
    let mut list = BufReader::new(list);
    let mut functions = Vec::new();
    let mut line = Vec::new();
    while list.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        functions.extend(parse(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    functions
}

/// Parses `START SIZE name`, in hexadecimal.
fn parse(line: &str) -> Option<Function> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim();
    let end = start.saturating_add(size);
    (!name.is_empty()).then(|| Function { start, end, name: name.to_owned() })
}

/// Returns the pid of the process in its own container.
fn inner_pid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_range_and_a_name_are_taken() {
        let list = functions("1000 20 first\n0x2000 10 a b c\nnonsense\n3000 zz f\n4000 10 \n".as_bytes());
        let expected = [(0x1000, 0x1020, "first"), (0x2000, 0x2010, "a b c")];
        let found = list.iter().map(|function| (function.start, function.end, function.name.as_str()));
        assert!(found.eq(expected), "{list:?}");
    }
}
