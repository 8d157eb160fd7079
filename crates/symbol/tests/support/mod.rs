//! Real programs, built in a temporary folder by the real compilers, and the real tools to compare with.
#![allow(dead_code)] // Each test file uses its own part.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A C program whose inlined calls and lines are known; the numbers in the comments are line numbers.
pub(crate) const C_SOURCE: &str = r#"#include <stdio.h>
volatile long sink;
static inline __attribute__((always_inline)) long innermost(long x) {
    sink += x;                      /* 4 */
    return x * sink;                /* 5 */
}
static inline __attribute__((always_inline)) long middle(long x) {
    return innermost(x + 1) ^ sink; /* 8 */
}
__attribute__((noinline)) long outer(long x) {
    long y = middle(x);             /* 11 */
    return y + sink;
}
static __attribute__((noinline)) long local_helper(long x) {
    for (long i = 0; i < x; i++)
        sink += i;                  /* 16 */
    return sink;
}
int main(int argc, char **argv) {
    (void)argv;
    printf("%ld %ld\n", outer(argc), local_helper(argc));
    return 0;
}
"#;

/// A Rust program with generics, closures, a trait and inlined calls.
pub(crate) const RUST_SOURCE: &str = r#"use std::collections::HashMap;
use std::hint::black_box;

pub(crate) struct Counter<T> { map: HashMap<String, T> }

impl<T: Copy + std::ops::AddAssign + Default> Counter<T> {
    #[inline(never)]
    pub(crate) fn count(&mut self, key: &str, by: T) {
        *self.map.entry(key.to_string()).or_default() += by; // 9
    }
}

trait Shape { fn area(&self) -> f64; }
struct Square(f64);
impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> f64 { black_box(self.0) * self.0 } // 17
}

#[inline(always)]
fn inlined_leaf(x: u64) -> u64 { black_box(x).rotate_left(3) } // 21

#[inline(always)]
fn inlined_parent(x: u64) -> u64 { inlined_leaf(x) ^ black_box(7) } // 24

#[inline(never)]
pub(crate) fn holder(x: u64) -> u64 { // 27
    inlined_parent(x) + 1 // 28
}

fn main() {
    let mut counter = Counter { map: HashMap::new() };
    counter.count("a", 1u32);
    let words: Vec<String> = (0..3).map(|n| format!("w{n}")).collect();
    words.iter().for_each(|word| counter.count(word, 2));
    let shape: &dyn Shape = &Square(2.0);
    println!("{} {} {}", holder(5), shape.area(), counter.map.len());
}
"#;

/// A C++ program with a namespace, a template, a constructor and an inlined method.
pub(crate) const CPP_SOURCE: &str = r#"volatile long sink;
namespace shop {
template <typename T> struct Basket {
    T total;
    explicit Basket(T start) : total(start) { sink += 1; }
    __attribute__((noinline)) T add(T price) { total += price; sink += total; return total; }
    inline __attribute__((always_inline)) T twice(T price) { sink += 2; return add(price) + add(price); }
};
}
__attribute__((noinline)) long fill(int n) {
    shop::Basket<long> basket(n);
    return basket.twice(n);
}
int main(int argc, char **) { return (int)fill(argc); }
"#;

/// A temporary folder with one program in it.
pub(crate) struct Program {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) source: PathBuf,
}

impl Program {
    fn new(source_name: &str, source: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source_path = folder.path().join(source_name);
        std::fs::write(&source_path, source).expect("the source is written");
        Self { path: folder.path().join("program"), source: source_path, folder }
    }

    pub(crate) fn c(flags: &[&str]) -> Self {
        let program = Self::new("program.c", C_SOURCE);
        program.compile("cc", flags);
        program
    }

    pub(crate) fn of_c(source: &str, flags: &[&str]) -> Self {
        let program = Self::new("program.c", source);
        program.compile("cc", flags);
        program
    }

    pub(crate) fn cpp(flags: &[&str]) -> Self {
        let program = Self::new("program.cc", CPP_SOURCE);
        program.compile("c++", flags);
        program
    }

    fn compile(&self, compiler: &str, flags: &[&str]) {
        let mut command = Command::new(compiler);
        command.current_dir(self.folder.path()).args(flags).arg("-o").arg(&self.path).arg(&self.source);
        run(&mut command);
    }

    pub(crate) fn rust(flags: &[&str]) -> Self {
        let program = Self::new("program.rs", RUST_SOURCE);
        let mut command = Command::new("rustc");
        // Only the legacy mangling asks for `-Zunstable-options`.
        command.env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTFLAGS");
        command.current_dir(program.folder.path()).args(["--edition", "2021"]).args(flags);
        run(command.arg("-o").arg(&program.path).arg(&program.source));
        program
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the program is readable")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a program, which must succeed, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} (is it installed?): {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns whether a command succeeds, to find out what a tool supports.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The address and size of the symbol `name` (demangled), from `nm`.
pub(crate) fn symbol(path: &Path, name: &str) -> (u64, u64) {
    let listing = run(Command::new("nm").args(["-S", "-C", "--defined-only"]).arg(path));
    let found = listing.lines().find_map(|line| {
        let mut words = line.splitn(4, ' ');
        let (address, size, _kind, symbol) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        // Without its hash, if it has one.
        let bare =
            symbol.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(symbol, |(bare, _)| bare);
        (bare == name).then_some((hex(address)?, hex(size)?))
    });
    found.unwrap_or_else(|| panic!("nm lists no {name} in {}:\n{listing}", path.display()))
}

/// The start of every instruction of the range, from `objdump`.
pub(crate) fn instruction_addresses(path: &Path, start: u64, end: u64) -> Vec<u64> {
    let listing = run(Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(format!("--start-address={start:#x}"))
        .arg(format!("--stop-address={end:#x}"))
        .arg(path));
    let addresses = listing.lines().filter_map(|line| {
        let (address, rest) = line.trim_start().split_once(':')?;
        (line.starts_with(' ') && rest.starts_with('\t')).then(|| u64::from_str_radix(address, 16).ok())?
    });
    addresses.collect()
}

/// One frame as `addr2line -fi` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolFrame {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// Asks `addr2line -afi` about each address. Function names are as they are in the file, not demangled.
pub(crate) fn addr2line(path: &Path, addresses: &[u64]) -> Vec<Vec<ToolFrame>> {
    let mut answers = Vec::new();
    for chunk in addresses.chunks(2000) {
        let arguments = chunk.iter().map(|address| format!("{address:#x}"));
        let output = run(Command::new("addr2line").args(["-a", "-f", "-i", "-e"]).arg(path).args(arguments));
        let mut lines = output.lines().peekable();
        while lines.next().is_some() {
            let mut frames = Vec::new();
            while let Some(function) = lines.next_if(|line| !line.starts_with("0x")) {
                let place = lines.next().expect("a place follows each function");
                let place = place.split(" (discriminator").next().expect("split yields one");
                let (file, line) = place.rsplit_once(':').expect("file:line");
                frames.push(ToolFrame {
                    function: function.to_owned(),
                    file: file.to_owned(),
                    line: line.parse().unwrap_or(0),
                });
            }
            answers.push(frames);
        }
    }
    answers
}
