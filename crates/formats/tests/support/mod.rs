//! The shared part of the tests with real tools: finding the tools, a program to profile, and sums over profiles.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use flamelet_formats::{Format, FormatOptions, Read, read, read_file};
use flamelet_profile::Profile;

/// Fails with the command that installs `command` if it is missing.
#[track_caller]
pub fn need(command: &str, package: &str) {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|folder| folder.join(command).is_file());
    assert!(found, "{command} is not installed: apt-get install --yes {package}");
}

/// Returns whether the kernel lets this user run perf record; prints a `SKIP:` line if not.
pub fn perf_may_record() -> bool {
    need("perf", "linux-perf");
    let file = folder("perf").join(format!("tried-{}", std::process::id()));
    let tried = Command::new("perf").args(["record", "-o"]).arg(&file).args(["--", "true"]).output().unwrap();
    let may = tried.status.success();
    if !may {
        let said = String::from_utf8_lossy(&tried.stderr).replace('\n', " ");
        flamelet_test_support::skip!("perf may not record here: {said}");
    }
    may
}

/// A folder for the files of one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder in the target directory");
    folder
}

/// The program that the tools look at: two threads, recursion, allocations of several lifetimes.
pub fn fixture() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // One folder for each test binary, which may run at the same time as others.
        let program = folder(&format!("fixture-{}", std::process::id())).join("fixture");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fixture.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let flags = ["--edition=2024", "-g", "-Copt-level=1", "-Cforce-frame-pointers=yes", "-o"];
        run(Command::new(rustc).args(flags).arg(&program).arg(source));
        program
    })
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {message}");
    output
}

/// Runs a command that fetches packages; a connection may fail, so it is tried three times.
#[track_caller]
pub fn download(command: &mut Command) {
    for _ in 0..2 {
        if command.output().is_ok_and(|output| output.status.success()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_secs(10));
    }
    run(command);
}

/// What a command prints.
#[track_caller]
pub fn printed(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

/// Reads a file and checks what format it was taken for.
#[track_caller]
pub fn open(path: &Path, format: Format) -> Read {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = read_file(&file, &FormatOptions::default());
    let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(read.format, format, "{}", path.display());
    read
}

/// Reads bytes and checks what format they were taken for.
#[track_caller]
pub fn open_bytes(bytes: &[u8], format: Format) -> Read {
    let read = read(bytes, &FormatOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.format, format);
    read
}

/// The place of the value called `kind`.
#[track_caller]
pub fn column(profile: &Profile, kind: &str) -> usize {
    let types = profile.sample_types();
    let found = types.iter().position(|value| profile.string(value.kind) == kind);
    found.unwrap_or_else(|| panic!("no value {kind}"))
}

/// The sum of the value called `kind`.
#[track_caller]
pub fn total(profile: &Profile, kind: &str) -> i64 {
    profile.total(column(profile, kind))
}

/// The names of a stack, root first, inlined functions included.
pub fn names(profile: &Profile, stack: flamelet_profile::StackId) -> Vec<String> {
    let mut names = Vec::new();
    for &location in profile.stack(stack).iter().rev() {
        let lines = profile.lines(location);
        if lines.is_empty() {
            names.push(format!("{:#x}", profile.location(location).address));
        }
        for line in lines.iter().rev() {
            let name = line.function.map_or("", |id| profile.string(profile.function(id).name));
            names.push(name.to_owned());
        }
    }
    names
}

/// A profile as folded stacks: what any two files of the same samples must agree on.
pub fn folded(profile: &Profile, kind: &str) -> BTreeMap<String, i64> {
    let index = column(profile, kind);
    let mut sums = BTreeMap::new();
    for sample in profile.samples() {
        *sums.entry(names(profile, sample.stack).join(";")).or_default() += sample.values[index];
    }
    sums.retain(|_, value| *value != 0);
    sums
}

/// Returns the flat and cumulative cost of each function.
pub fn flat_and_cumulative(profile: &Profile, kind: &str) -> BTreeMap<String, (i64, i64)> {
    let index = column(profile, kind);
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for sample in profile.samples() {
        let mut names = names(profile, sample.stack);
        if let Some(leaf) = names.last() {
            sums.entry(leaf.clone()).or_default().0 += sample.values[index];
        }
        names.sort();
        names.dedup();
        for name in names {
            sums.entry(name).or_default().1 += sample.values[index];
        }
    }
    sums
}

/// The first number after `label` in `text`, thousands separators dropped.
#[track_caller]
pub fn number_after(text: &str, label: &str) -> f64 {
    let (_, rest) = text.split_once(label).unwrap_or_else(|| panic!("no `{label}` in:\n{text}"));
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '.'))
        .filter(|&c| c != ',')
        .collect();
    digits.trim_end_matches('.').parse().unwrap_or_else(|_| panic!("no number after `{label}` in:\n{text}"))
}
