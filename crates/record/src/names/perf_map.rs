//! `/tmp/perf-PID.map`, in which a JIT compiler lists the names of its code.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use crate::sys::machine;

/// More than any real map has. A file that never ends must not be read whole.
const MOST_BYTES: u64 = 256 << 20;

/// The functions of one process, by address.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    /// Start, end, name, by start and then in the order of the file: a JIT discards code and reuses its memory.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the map of `pid`: from its own view of the files while it is running, else from ours.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        let inner = inner_pid(pid);
        let owner = std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
        let places = [format!("/proc/{pid}/root/tmp/perf-{inner}.map"), format!("/tmp/perf-{pid}.map")];
        let file = places.iter().find_map(|place| open(place, owner))?;
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

    /// Returns the function at `address`; if there were several, the last one generated.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let near = self.functions[..after].iter().rev().take(64);
        near.into_iter().find(|(_, end, _)| address < *end).map(|(.., name)| name.as_str())
    }
}

/// Opens a regular file. Other users may put something else there, such as a pipe that is never written to. While the
/// process lives, the file must belong to its user, to root or to us.
fn open(place: &str, owner: Option<u32>) -> Option<File> {
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(place).ok()?;
    let facts = file.metadata().ok()?;
    let is_theirs = owner.is_none_or(|owner| [owner, 0, machine::effective_user()].contains(&facts.uid()));
    (facts.is_file() && is_theirs).then_some(file)
}

/// Parses `START SIZE name`, in hexadecimal.
fn parse(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim();
    (!name.is_empty()).then(|| (start, start.saturating_add(size), name.to_owned()))
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
    fn names_by_range_and_the_latest_wins() {
        let map = PerfMap::read("1000 20 first\n0x2000 10 a b c\nnonsense\n1000 20 second\n".as_bytes());
        assert_eq!(map.name(0x101f), Some("second"));
        assert_eq!(map.name(0x1020), None);
        assert_eq!(map.name(0x2000), Some("a b c"));
        assert_eq!(map.name(0x10), None);
    }

    #[test]
    fn only_plain_files_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
        let own = Some(machine::effective_user());
        std::fs::write(place("plain"), "1000 20 f\n").expect("our own folder");
        std::os::unix::fs::symlink("plain", place("link")).expect("our own folder");
        let made = std::process::Command::new("mkfifo").arg(place("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert!(open(&place("plain"), own).is_some() && open(&place("plain"), None).is_some());
        // A plain open would wait for the pipe forever.
        assert!(open(&place("pipe"), own).is_none());
        assert!(open(&place("link"), own).is_none());
        assert!(open(folder.path().to_str().expect("a plain path"), own).is_none());
    }
}
