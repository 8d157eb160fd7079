//! The tools: what each is good for, what it costs, and how it is called.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Drive, Subject};
use crate::sys::process::find_program;
use crate::{Error, ErrorKind, Result};

/// How many times longer each kind of work takes under each tool: written by `cargo xtask bench tools`.
const SLOWDOWNS: &str = include_str!("slowdowns.txt");

/// A tool that can be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// perf, with stacks.
    Perf,
    /// strace, with times.
    Strace,
    /// Valgrind's heap profiler.
    Massif,
    /// Valgrind's call graph profiler.
    Callgrind,
    /// Valgrind's cache profiler.
    Cachegrind,
    /// Valgrind's allocation profiler.
    Dhat,
    /// heaptrack.
    Heaptrack,
    /// bpftrace, with the user's program or one that samples stacks.
    Bpftrace,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 8] = [
        Self::Perf,
        Self::Strace,
        Self::Massif,
        Self::Callgrind,
        Self::Cachegrind,
        Self::Dhat,
        Self::Heaptrack,
        Self::Bpftrace,
    ];

    /// Its name in flamelet.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Strace => "strace",
            Self::Massif => "massif",
            Self::Callgrind => "callgrind",
            Self::Cachegrind => "cachegrind",
            Self::Dhat => "dhat",
            Self::Heaptrack => "heaptrack",
            Self::Bpftrace => "bpftrace",
        }
    }

    /// The program that is run.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Massif | Self::Callgrind | Self::Cachegrind | Self::Dhat => "valgrind",
            other => other.name(),
        }
    }

    /// The Debian package that it comes in.
    pub const fn package(self) -> &'static str {
        match self {
            Self::Perf => "linux-perf",
            other => other.program(),
        }
    }

    /// What it is good for.
    pub const fn good_for(self) -> &'static str {
        match self {
            Self::Perf => "CPU time by stack, hardware counters",
            Self::Strace => "every system call with its arguments and time",
            Self::Massif => "heap size over time, and its owners at the peak",
            Self::Callgrind => "exact instruction counts and calls",
            Self::Cachegrind => "cache misses by line",
            Self::Dhat => "lifetimes and use of heap blocks",
            Self::Heaptrack => "every allocation with its stack",
            Self::Bpftrace => "any probe of the kernel, with stacks and histograms",
        }
    }

    /// How many times longer computing, allocating and system calls take under it, measured with loops that do
    /// nothing else, so real programs suffer less. [`Tool::slowdowns_measured`] says when and where that was
    /// measured.
    pub fn slowdown(self) -> String {
        let line = SLOWDOWNS.lines().find_map(|line| line.strip_prefix(self.name())?.strip_prefix(' '));
        let mut times = line.unwrap_or_default().split(' ');
        let mut next = || times.next().filter(|times| !times.is_empty()).unwrap_or("?");
        format!("computing {}x, allocating {}x, system calls {}x", next(), next(), next())
    }

    /// The day on which the slowdowns were measured, and the machine.
    pub fn slowdowns_measured() -> &'static str {
        SLOWDOWNS.lines().next().unwrap_or_default()
    }

    /// Returns whether it can watch a process that is already running.
    pub const fn can_attach(self) -> bool {
        matches!(self, Self::Perf | Self::Strace | Self::Heaptrack | Self::Bpftrace)
    }

    /// Returns whether its file may hold addresses without names, because the command had ended.
    pub(super) const fn leaves_addresses(self) -> bool {
        matches!(self, Self::Bpftrace)
    }

    /// Returns the path of the program, if it is installed.
    pub fn installed(self) -> Option<PathBuf> {
        find_program(OsStr::new(self.program()))
    }

    /// Fails with how to install it if it is missing.
    pub(super) fn require(self) -> Result<()> {
        match self.installed() {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorKind::InvalidOption,
                format!(
                    "{} is not installed; install it with: apt-get install {}",
                    self.program(),
                    self.package()
                ),
            )),
        }
    }

    /// Returns the words of the whole command line.
    pub(super) fn command_line(self, drive: &Drive, folder: &Path) -> Vec<OsString> {
        let file = |name: &str| folder.join(name).into_os_string();
        let equals = |option: &str, name: &str| {
            let mut word = OsString::from(option);
            word.push(folder.join(name));
            word
        };
        let text = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut words = text(&[self.program()]);
        match self {
            Self::Perf => {
                words.extend(text(&["record", "-F", "997", "--call-graph", "dwarf,16384", "-o"]));
                words.push(file("perf.data"));
            }
            Self::Strace => {
                words.extend(text(&["-f", "-T", "-ttt", "-o"]));
                words.push(file("strace.log"));
            }
            Self::Massif => {
                words.extend([OsString::from("--tool=massif"), equals("--massif-out-file=", "massif.out")]);
            }
            Self::Callgrind => {
                words.extend(text(&["--tool=callgrind", "--collect-jumps=yes", "--simulate-cache=yes"]));
                words.push(equals("--callgrind-out-file=", "callgrind.out"));
            }
            Self::Cachegrind => words.extend([
                OsString::from("--tool=cachegrind"),
                equals("--cachegrind-out-file=", "cachegrind.out"),
            ]),
            Self::Dhat => {
                words.extend([OsString::from("--tool=dhat"), equals("--dhat-out-file=", "dhat.json")]);
            }
            Self::Heaptrack => {
                words.push("-o".into());
                words.push(file("heaptrack"));
            }
            Self::Bpftrace => {
                words.push("-o".into());
                words.push(file("bpftrace.txt"));
            }
        }
        words.extend(drive.options.iter().map(OsString::from));
        if self == Self::Bpftrace {
            words.extend(bpftrace_subject(drive));
            return words;
        }
        match &drive.subject {
            Subject::Pid(pid) => words.extend(["-p".into(), pid.to_string().into()]),
            Subject::Command(command) => {
                if matches!(self, Self::Perf | Self::Strace) {
                    words.push("--".into());
                }
                words.extend(command.iter().cloned());
            }
        }
        words
    }

    /// Returns the file that it wrote.
    pub(super) fn raw_file(self, folder: &Path) -> Option<PathBuf> {
        let start = match self {
            Self::Perf => "perf.data",
            Self::Strace => "strace.log",
            Self::Massif => "massif.out",
            Self::Callgrind => "callgrind.out",
            Self::Cachegrind => "cachegrind.out",
            Self::Dhat => "dhat.json",
            Self::Heaptrack => "heaptrack",
            Self::Bpftrace => "bpftrace.txt",
        };
        // heaptrack appends the extension of its compression.
        let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = files
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
            .collect();
        found.sort();
        found.into_iter().next()
    }
}

/// bpftrace takes its program and its subject in its own way; without a program it samples stacks.
fn bpftrace_subject(drive: &Drive) -> Vec<OsString> {
    let sampler = |condition: &str| format!("profile:hz:99 /{condition}/ {{ @[ustack] = count(); }}");
    let program = match (&drive.script, &drive.subject) {
        (Some(script), _) => script.clone(),
        (None, Subject::Pid(pid)) => sampler(&format!("pid == {pid}")),
        (None, Subject::Command(_)) => sampler("pid == cpid"),
    };
    let mut words: Vec<OsString> = match (is_file(&program), drive.duration) {
        (true, _) => vec![program.into()],
        (false, Some(duration)) if bpftrace_ends_itself(drive) => {
            let millis = duration.as_millis().max(1);
            vec!["-e".into(), format!("{program} interval:ms:{millis} {{ exit(); }}").into()]
        }
        (false, _) => vec!["-e".into(), program.into()],
    };
    match &drive.subject {
        Subject::Pid(pid) => words.extend(["-p".into(), pid.to_string().into()]),
        Subject::Command(command) => {
            let mut command: Vec<String> =
                command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            // If the name exists in two folders of PATH, bpftrace does not take the first.
            if let Some(program) = command.first_mut().filter(|program| !program.contains('/'))
                && let Some(path) = find_program(OsStr::new(program))
            {
                *program = path.to_string_lossy().into_owned();
            }
            words.extend(["-c".into(), command.join(" ").into()]);
        }
    }
    words
}

fn is_file(script: &str) -> bool {
    Path::new(script).is_file()
}

/// Returns whether the bpftrace program itself ends after the duration, counted from when it starts to watch. If not,
/// the command is asked to end, because bpftrace would kill it.
pub(super) fn bpftrace_ends_itself(drive: &Drive) -> bool {
    let has_text = drive.script.as_deref().is_none_or(|script| !is_file(script));
    drive.duration.is_some() && has_text && matches!(drive.subject, Subject::Pid(_))
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tool {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|tool| tool.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|tool| tool.name()).collect();
            let message = format!("unknown tool '{text}': use one of {}", names.join(", "));
            Error::new(ErrorKind::InvalidOption, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slowdown_was_measured() {
        for tool in Tool::ALL {
            assert!(!tool.slowdown().contains('?'), "{tool}: {}", tool.slowdown());
        }
        assert!(Tool::slowdowns_measured().contains("Linux"), "{}", Tool::slowdowns_measured());
    }
}
