//! pprof's legacy formats, as written by gperftools, tcmalloc, Go's `debug=1` pages and Java agents.
//!
//! | kind | first line |
//! |---|---|
//! | CPU | binary: words 0, 3, 0, period, 0 |
//! | heap, growth, fragmentation | `heap profile: 1: 4 [7: 1000] @ heap_v2/524288` |
//! | contention, mutex | `--- contention:`, `--- mutex:`, `--- contentionz 1 ---` |
//! | threads | `--- threadz 1 ---` |
//! | Go's counts | `goroutine profile: total 7` |
//! | Java | `--- heapz 1 ---`, `--- contentionz 1 ---`, with names for addresses below |

mod contention;
mod count;
mod cpu;
mod heap;
mod java;
mod thread;

use flamelet_profile::{ErrorKind, Profile, Result};

use crate::addresses::{AddressSamples, parse_module};
use crate::assembly::Assembly;
use crate::input::{Input, LineResult};
use crate::number::{prefixed_hex, words};
use crate::{Error, FormatOptions, Notes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProfileKind {
    Cpu,
    Heap,
    Contention,
    Thread,
    Count,
    Java,
}

/// Returns whether `head` starts like one of the legacy formats.
pub(crate) fn recognise(head: &[u8]) -> bool {
    kind_of(head).is_some()
}

fn kind_of(head: &[u8]) -> Option<ProfileKind> {
    if cpu::recognise(head) {
        return Some(ProfileKind::Cpu);
    }
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with(b"#"))?;
    let is_java = || memchr::memmem::find(&head[..head.len().min(4096)], b"format = java").is_some();
    if first.starts_with(b"heap profile:") {
        Some(ProfileKind::Heap)
    } else if (first.starts_with(b"--- heapz ") || first.starts_with(b"--- contentionz ")) && is_java() {
        Some(ProfileKind::Java)
    } else if [&b"--- contention:"[..], b"--- mutex:", b"--- contentionz "]
        .iter()
        .any(|start| first.starts_with(start))
    {
        Some(ProfileKind::Contention)
    } else if first.starts_with(b"--- threadz ") || first.starts_with(b"--- Thread ") {
        Some(ProfileKind::Thread)
    } else {
        count::parse_first(first).map(|_| ProfileKind::Count)
    }
}

/// Reads a profile in one of the legacy formats.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let Some(kind) = kind_of(input.head()) else {
        return Err(Error::new(ErrorKind::WrongFormat, "not a profile in one of pprof's older formats"));
    };
    let budget = &input.budget().clone();
    if kind == ProfileKind::Cpu {
        return cpu::read(&input.slurp()?, budget);
    }
    let (assembly, samples) = (Assembly::new(false, budget), AddressSamples::new(budget));
    let mut text = TextProfile { assembly, samples, in_modules: false };
    let mut reader: Box<dyn LineReader> = match kind {
        ProfileKind::Heap => Box::new(heap::Heap::default()),
        ProfileKind::Contention => Box::new(contention::Contention::default()),
        ProfileKind::Thread => Box::new(thread::Threads::default()),
        ProfileKind::Java => Box::new(java::Java::default()),
        ProfileKind::Count | ProfileKind::Cpu => Box::new(count::Count::default()),
    };
    input.each_line(|line| {
        let line = line.trim_ascii();
        if text.module_line(line) { Ok(()) } else { reader.line(line, &mut text) }
    })?;
    reader.finish(&mut text, notes)?;
    let TextProfile { mut assembly, samples, .. } = text;
    samples.finish(&mut assembly);
    assembly.finish()
}

/// State that the text formats share while they are read.
struct TextProfile {
    assembly: Assembly,
    samples: AddressSamples,
    in_modules: bool,
}

impl TextProfile {
    /// Takes a line of the list of modules at the end of a file.
    fn module_line(&mut self, line: &[u8]) -> bool {
        if line == b"MAPPED_LIBRARIES:" || line == b"--- Memory map: ---" {
            self.in_modules = true;
            return true;
        }
        if self.in_modules
            && let Some(module) = parse_module(line)
        {
            self.samples.module(module);
        }
        self.in_modules
    }
}

/// A reader for one of the text formats.
trait LineReader {
    /// Takes a trimmed line; an error says what is wrong with it.
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult;

    /// Called at the end of the file, before modules are matched.
    fn finish(&mut self, text: &mut TextProfile, notes: &mut Notes) -> Result<()>;
}

/// Parses the addresses of a stack. They are return addresses; subtracting 1 gives an address inside the call.
fn stack(text: &[u8]) -> std::result::Result<Vec<u64>, &'static str> {
    words(text)
        .map(|word| prefixed_hex(word).map(|address| address.saturating_sub(1)).ok_or("a bad address"))
        .collect()
}

/// Returns the numbers of a line, ignoring the punctuation around them.
fn numbers(text: &[u8]) -> impl Iterator<Item = i64> {
    text.split(|byte| !byte.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(|word| crate::number::decimal(word).and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX))
}
