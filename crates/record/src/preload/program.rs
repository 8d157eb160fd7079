//! Checks whether a library can be loaded into a program, before trying it.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flamelet_profile::open_regular;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::sys::files;
use crate::sys::process::find_program;
use crate::{Error, ErrorKind, Result};

/// A program that was checked.
#[derive(Debug)]
pub(super) struct Program {
    /// The allocator linked into it that it uses instead of the C library's.
    pub(super) own_allocator: Option<&'static str>,
}

/// What the library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Cpu,
    Heap,
}

impl Purpose {
    /// Returns what to do about a program that loads no library.
    fn way_out(self, is_go: bool) -> &'static str {
        match self {
            Self::Cpu if is_go => {
                "allow perf_event_open (see above), or serve net/http/pprof in it and open its /debug/pprof/profile"
            }
            Self::Cpu => {
                "allow perf_event_open (see above), or link it dynamically (without -static or \
                 target-feature=+crt-static)"
            }
            Self::Heap if is_go => "serve net/http/pprof in it and open its /debug/pprof/heap",
            Self::Heap => {
                "link it dynamically (without -static or target-feature=+crt-static), build flamelet into it \
                 (flamelet::global_allocator!()), or use `flamelet run dhat`"
            }
        }
    }

    /// Returns what to do about a program of another C library.
    fn way_out_of_musl(self) -> &'static str {
        match self {
            Self::Cpu => "allow perf_event_open (see above), or build it for a -gnu target",
            Self::Heap => {
                "build it for a -gnu target, or build flamelet into it (flamelet::global_allocator!())"
            }
        }
    }
}

/// How many scripts may interpret each other: the interpreter of a script may be a script.
const MOST_SCRIPTS: usize = 4;

/// Checks the program that `name` stands for.
pub(super) fn check(name: &OsStr, purpose: Purpose) -> Result<Program> {
    let mut path = find(name)?;
    for _ in 0..MOST_SCRIPTS {
        check_rights(&path)?;
        let bytes = start_of(&path)?;
        match interpreter(&bytes) {
            Some(interpreter) => path = find(&interpreter)?,
            None => return check_binary(&path, &bytes, purpose),
        }
    }
    Ok(Program { own_allocator: None })
}

fn refused(path: &Path, why: &str, way_out: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{}: {why}; {way_out}", path.display()))
}

fn find(name: &OsStr) -> Result<PathBuf> {
    let missing = || Error::new(ErrorKind::NotFound, format!("{}: no such command", name.display()));
    find_program(name).ok_or_else(missing)
}

/// Rejects programs that gain rights when they are started: the loader ignores preloaded libraries for them.
fn check_rights(path: &Path) -> Result<()> {
    let Ok(file) = std::fs::metadata(path) else { return Ok(()) };
    let (user, group) = files::own_ids();
    let by_user = file.mode() & 0o4000 != 0 && file.uid() != user;
    let by_group = file.mode() & 0o2010 == 0o2010 && file.gid() != group;
    let by_capabilities = user != 0 && files::has_capabilities(path);
    let what = match (by_user, by_group, by_capabilities) {
        (true, ..) => "is setuid",
        (_, true, _) => "is setgid",
        (.., true) => "has file capabilities",
        _ => return Ok(()),
    };
    let why = format!("{what}, and the loader ignores preloaded libraries for such a program");
    let way_out = "record a copy (cp drops the bit), or run flamelet as its owner";
    Err(refused(path, &why, way_out))
}

fn start_of(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = open_regular(path).and_then(|file| file.take(1 << 16).read_to_end(&mut bytes));
    // A file that may be run but not read is left to the loader.
    opened.map(|_| bytes).or_else(|_| Ok(Vec::new()))
}

/// Returns the program that runs a script; for `env`, the program that it starts.
fn interpreter(bytes: &[u8]) -> Option<OsString> {
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let is_env = Path::new(first).file_name() == Some(OsStr::new("env"));
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
    Some(OsString::from(named.filter(|_| is_env).unwrap_or(first)))
}

fn check_binary(path: &Path, bytes: &[u8], purpose: Purpose) -> Result<Program> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Ok(Program { own_allocator: None });
    }
    const CLASS_64: u8 = 2;
    let way_out = "record a program that was built for this machine";
    if bytes.get(4) != Some(&CLASS_64) {
        return Err(refused(path, "is a 32-bit program, but flamelet's library is 64-bit", way_out));
    }
    let Ok(header) = elf::FileHeader64::<Endianness>::parse(bytes) else {
        return Err(refused(path, "its ELF header is damaged", way_out));
    };
    let endian = header.endian().unwrap_or_default();
    let own_machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
    if header.e_machine(endian) != own_machine {
        return Err(refused(path, "is a program for another machine", way_out));
    }
    let segments = header.program_headers(endian, bytes).unwrap_or_default();
    let loader = segments.iter().find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    let Some(loader) = loader else {
        let why = "is statically linked, so no library can be preloaded";
        return Err(refused(path, why, purpose.way_out(is_go(path))));
    };
    if String::from_utf8_lossy(loader).contains("musl") {
        let why = "is linked with musl, but flamelet's library with glibc";
        return Err(refused(path, why, purpose.way_out_of_musl()));
    }
    let own_allocator = if purpose == Purpose::Heap { own_allocator(path) } else { None };
    Ok(Program { own_allocator })
}

fn whole(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether the program is written in Go.
fn is_go(path: &Path) -> bool {
    let Ok(bytes) = whole(path) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    file.section_by_name(".note.go.buildid").is_some() || file.section_by_name(".gopclntab").is_some()
}

/// Returns the allocator that is linked into the program: its calls never reach the C library's functions.
fn own_allocator(path: &Path) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 3] =
        [("_rjem_malloc", "jemalloc"), ("mi_malloc", "mimalloc"), ("je_malloc", "jemalloc")];
    let bytes = whole(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let defined = |symbol: &object::Symbol<'_, '_>| symbol.is_definition();
    let mut symbols = file.symbols().chain(file.dynamic_symbols()).filter(defined);
    let named = symbols.find_map(|symbol| {
        let name = symbol.name().ok()?;
        KNOWN.iter().find(|(known, _)| *known == name).map(|(_, allocator)| *allocator)
    });
    let replaces_malloc = || {
        let mut exported = file.dynamic_symbols().filter(defined);
        exported.any(|symbol| symbol.name() == Ok("malloc")).then_some("its own malloc")
    };
    named.or_else(replaces_malloc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_found_also_behind_env() {
        let of = |text: &str| interpreter(text.as_bytes()).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(of("#!/bin/sh -e\nls").as_deref(), Some("/bin/sh"));
        assert_eq!(of("#! /usr/bin/env -S A=1 python3 -u\n").as_deref(), Some("python3"));
        assert_eq!(of("\x7fELF"), None);
    }

    #[test]
    fn ordinary_programs_pass_and_missing_ones_are_named() {
        assert!(check("sh".as_ref(), Purpose::Heap).is_ok());
        let error = check("no-such-program-here".as_ref(), Purpose::Cpu).expect_err("missing");
        assert_eq!(error.to_string(), "no-such-program-here: no such command");
    }

    #[test]
    fn the_way_out_fits_the_purpose() {
        let cpu = [Purpose::Cpu.way_out(false), Purpose::Cpu.way_out(true), Purpose::Cpu.way_out_of_musl()];
        assert!(cpu.iter().all(|way| way.contains("perf_event_open") && !way.contains("alloc")), "{cpu:?}");
        assert!(Purpose::Heap.way_out(false).contains("global_allocator!()"));
        assert!(Purpose::Heap.way_out(true).contains("/debug/pprof/heap"));
    }
}
