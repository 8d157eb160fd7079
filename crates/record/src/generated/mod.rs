//! The names of code that processes generate while they run, from the lists that their runtimes write.

mod jitdump;
mod list;
mod perf_map;
mod runtimes;

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::sys::machine;
use list::{CodeList, GeneratedFunction};
pub(crate) use runtimes::Runtime;

/// More than any real list has. A file that never ends must not be read whole.
const MOST_BYTES: u64 = 256 << 20;
/// The memory that the functions of one process, and of all, may take. Any user can write as many as they like.
const MOST_OF_ONE: usize = 64 << 20;
pub(crate) const MOST_OF_ALL: usize = 4 * MOST_OF_ONE;

/// A process that generates code, or runs a program that may do so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    pid: u32,
    /// The process that it was forked from, which has listed the code that both have.
    parent: Option<u32>,
    /// The user that it runs as, if that was seen while it ran.
    owner: Option<u32>,
    /// The list that it has mapped to show where it is, as its own file system names it.
    jitdump: Option<PathBuf>,
    pub(crate) runtime: Option<&'static Runtime>,
}

impl Generator {
    /// The process `pid`. If it has ended, only lists of root and of this user are trusted.
    pub(crate) fn new(pid: u32) -> Self {
        let owner = std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
        Self { pid, owner, ..Self::default() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Opens a file of the process: in its own view of the files while it is running, else in ours.
    fn open(&self, theirs: &Path, ours: &Path) -> Option<File> {
        let inside = theirs.strip_prefix("/").unwrap_or(theirs);
        let inside = Path::new("/proc").join(self.pid.to_string()).join("root").join(inside);
        [&*inside, ours].iter().find_map(|place| open(place, self.owner))
    }
}

/// All such processes.
#[derive(Debug, Default)]
pub(crate) struct Generators(FxHashMap<u32, Generator>);

impl Generators {
    /// Notes what a process has mapped executable.
    pub(crate) fn mapped(&mut self, pid: u32, name: &str) {
        let runtime = Runtime::of_file(name);
        let is_list = jitdump::is_name(name);
        if runtime.is_none() && !is_list && !is_generated(name) {
            return;
        }
        let generator = self.0.entry(pid).or_insert_with(|| Generator::new(pid));
        generator.runtime = generator.runtime.or(runtime);
        if is_list {
            generator.jitdump = Some(PathBuf::from(name));
        }
    }

    /// Notes that `pid` began as a copy of `parent`.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32) {
        if let Some(before) = self.0.get(&parent) {
            let copy = Generator { pid, parent: Some(parent), jitdump: None, ..before.clone() };
            self.0.insert(pid, copy);
        }
    }

    /// Notes that `pid` runs another program.
    pub(crate) fn exec(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Generator> {
        self.0.get(&pid)
    }

    /// Returns a process and those whose copy it is.
    pub(crate) fn with_parents(&self, pid: u32) -> impl Iterator<Item = &Generator> {
        /// A process may have the number of one of its parents again.
        const MOST: usize = 8;
        let parent = |generator: &&Generator| self.0.get(&generator.parent?);
        std::iter::successors(self.0.get(&pid), parent).take(MOST)
    }
}

/// Returns whether executable memory of this name is no file, but was generated.
pub(crate) fn is_generated(name: &str) -> bool {
    const MEMORY: [&str; 4] = ["//anon", "/memfd:", "/dev/zero", "/anon_hugepage"];
    name.starts_with("[anon") || MEMORY.iter().any(|memory| name.starts_with(memory))
}

/// Opens a regular file that belongs to `owner`, to root or to us: other users may put anything there, such as a pipe
/// that is never written to, or names that mislead.
fn open(place: &Path, owner: Option<u32>) -> Option<File> {
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(place).ok()?;
    let facts = file.metadata().ok()?;
    let is_theirs = is_trusted(facts.uid(), owner, machine::effective_user());
    (facts.is_file() && is_theirs).then_some(file)
}

/// Returns whether a list that belongs to `user` may name the code of a process that runs as `owner`.
fn is_trusted(user: u32, owner: Option<u32>, own: u32) -> bool {
    user == 0 || user == own || Some(user) == owner
}

/// The functions that one process has generated.
#[derive(Debug, Default)]
pub(crate) struct GeneratedCode {
    /// By start and then in the order of the list: a runtime discards code and reuses its memory.
    functions: Vec<GeneratedFunction>,
    /// How much memory they take at most.
    pub(crate) used: usize,
    /// Whether there was no room for all.
    pub(crate) is_cut: bool,
}

impl GeneratedCode {
    /// Reads the lists of a process into at most `room` bytes. Returns `None` if there are none.
    pub(crate) fn of(generator: &Generator, room: usize) -> Option<Self> {
        let mut list = CodeList::new(room.min(MOST_OF_ONE));
        let found = [perf_map::read(generator, &mut list), jitdump::read(generator, &mut list)];
        found.iter().any(Option::is_some).then(|| Self::new(list))
    }

    fn new(list: CodeList) -> Self {
        let (used, is_cut) = (list.used(), list.is_cut());
        let mut functions = list.functions;
        functions.sort_by_key(|function| function.start);
        Self { functions, used, is_cut }
    }

    /// Returns the function at `address`; if there were several, the last one generated.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        /// How many functions may overlap.
        const NEAR: usize = 64;
        let after = self.functions.partition_point(|function| function.start <= address);
        let mut near = self.functions[..after].iter().rev().take(NEAR);
        near.find(|function| address < function.end).map(|function| &*function.name)
    }
}

/// Reads any bytes as each kind of list, for the fuzzer.
///
/// # Panics
///
/// If they take more memory than is allowed.
#[doc(hidden)]
pub fn fuzz_generated(bytes: &[u8]) {
    const ROOM: usize = 1 << 16;
    let mut list = CodeList::new(ROOM);
    perf_map::functions(bytes, &mut list);
    let _ = jitdump::functions(bytes, &mut list);
    assert!(
        list.functions.capacity() * size_of::<GeneratedFunction>() <= ROOM,
        "{}",
        list.functions.capacity()
    );
    let code = GeneratedCode::new(list);
    let starts: Vec<u64> = code.functions.iter().map(|function| function.start).collect();
    for start in starts {
        let _ = code.name(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_range_and_the_latest_wins() {
        let mut list = CodeList::new(MOST_OF_ONE);
        for (start, size, name) in
            [(0x1000, 0x20, "first"), (0x2000, 0x10, "a b c"), (0x1000, 0x20, "second")]
        {
            assert!(list.add_named(start, size, name));
        }
        let code = GeneratedCode::new(list);
        assert_eq!(code.name(0x101f), Some("second"));
        assert_eq!([0x1020, 0x10].map(|address| code.name(address)), [None, None]);
        assert_eq!(code.name(0x2000), Some("a b c"));
    }

    #[test]
    fn only_plain_files_of_the_right_user_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| folder.path().join(name);
        let own = Some(machine::effective_user());
        std::fs::write(place("plain"), "1000 20 f\n").expect("our own folder");
        std::os::unix::fs::symlink("plain", place("link")).expect("our own folder");
        let made = std::process::Command::new("mkfifo").arg(place("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert!(open(&place("plain"), own).is_some() && open(&place("plain"), None).is_some());
        // A plain open would wait for the pipe forever.
        assert!(open(&place("pipe"), own).is_none());
        assert!(open(&place("link"), own).is_none());
        assert!(open(folder.path(), own).is_none());
    }

    #[test]
    fn another_users_list_is_not_read() {
        const OWN: u32 = 1000;
        assert!([0, OWN, 1001].into_iter().all(|user| is_trusted(user, Some(1001), OWN)));
        assert!(!is_trusted(1002, Some(1001), OWN));
        assert!(!is_trusted(1001, None, OWN), "the owner of the process is unknown");
    }
}
