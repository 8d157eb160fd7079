//! Damaged and hostile files: a result or an error, never a panic, a hang or excessive memory.

mod support;

use std::time::Duration;

#[cfg(feature = "disasm")]
use flamelet_symbol::disassemble::{self, Style};
use flamelet_symbol::inspect::inspect_bytes;
use flamelet_symbol::symbolize::{Frame, frames_in_elf};
use flamelet_symbol::{ErrorKind, Limits, buildid};
use flamelet_test_support::Random;
use support::{Program, symbol};

const LIMITS: Limits = Limits { memory: 64 << 20, time: Duration::from_secs(2), held: 1 << 20 };

/// Calls every function on the bytes. The results do not matter.
fn ask_everything(bytes: &[u8], addresses: &[u64]) {
    let _ = frames_in_elf(bytes, addresses, LIMITS);
    let _ = buildid::of_bytes(bytes);
    let _ = inspect_bytes(bytes);
    #[cfg(feature = "disasm")]
    let _ = disassemble::function(bytes, "outer", Style::default());
}

fn mutate(bytes: &mut [u8], random: &mut Random, from: usize, to: usize) {
    for _ in 0..1 + random.below(8) {
        let at = from + random.below(to - from);
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            2 => bytes[at] = random.below(256) as u8,
            _ => {
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill([0, 0xff][random.below(2)]);
            }
        }
    }
}

fn mutations(program: &Program, seed: u64, count: usize) {
    let original = program.bytes();
    let (start, size) = symbol(&program.path, "outer");
    let addresses: Vec<u64> = (start..start + size).chain((0..64).map(|step| start + step * 64)).collect();
    let mut random = Random::new(seed);
    for round in 0..count {
        let mut bytes = original.clone();
        // Half of the time the headers at either end, where a few bits change everything.
        match round % 4 {
            0 => mutate(&mut bytes, &mut random, 0, 1024.min(original.len())),
            1 => mutate(&mut bytes, &mut random, original.len().saturating_sub(3000), original.len()),
            _ => mutate(&mut bytes, &mut random, 0, original.len()),
        }
        ask_everything(&bytes, &addresses);
    }
}

#[test]
fn mutated_programs() {
    mutations(&Program::c(&["-O2", "-g", "-gdwarf-5"]), 0x9e37_79b9_7f4a_7c15, 400);
    mutations(&Program::c(&["-O2", "-g", "-gdwarf-4"]), 0xd1b5_4a32_d192_ed03, 400);
    mutations(&Program::c(&["-O2", "-g", "-gz=zlib"]), 0x8cb9_2ba7_2f3d_8dd7, 200);
}

/// Damages only the debug sections of a small program, many times.
#[test]
fn mutated_debug_sections() {
    let program = Program::c(&["-O2", "-g"]);
    let original = program.bytes();
    let headers = support::run(std::process::Command::new("readelf").args(["-S", "-W"]).arg(&program.path));
    let (start, size) = symbol(&program.path, "outer");
    let addresses: Vec<u64> = (start..start + size).collect();
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut sections = 0;
    for line in headers.lines().filter(|line| line.contains(" .debug_")) {
        let words: Vec<&str> = line.split(']').nth(1).expect("a section line").split_whitespace().collect();
        let hex = |word: &str| usize::from_str_radix(word, 16).expect("hexadecimal");
        let (offset, size) = (hex(words[3]), hex(words[4]));
        sections += 1;
        for _ in 0..150 {
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut random, offset, offset + size);
            let _ = frames_in_elf(&bytes, &addresses, LIMITS);
        }
    }
    assert!(sections >= 5, "{sections} debug sections");
}

#[test]
fn truncated_programs() {
    let program = Program::c(&["-O2", "-g"]);
    let bytes = program.bytes();
    let (start, _) = symbol(&program.path, "outer");
    for length in (0..bytes.len()).step_by(97).chain(0..80) {
        ask_everything(&bytes[..length], &[start, start + 1]);
    }
}

#[test]
fn files_that_are_something_else() {
    for bytes in [&b""[..], b"\x7fELF", b"hello, this is no program", &[0; 4096], b"MZ\x90\0", b"!<arch>\n"] {
        let error = frames_in_elf(bytes, &[1], LIMITS).expect_err("no ELF file");
        assert!(matches!(error.kind(), ErrorKind::WrongFormat | ErrorKind::Corrupt), "{error}");
    }
}

/// A section that claims to decompress to more than is allowed.
#[test]
fn decompression_bombs() {
    let program = Program::c(&["-O2", "-g", "-gz=zlib"]);
    let (start, _) = symbol(&program.path, "outer");
    let limits = Limits { memory: 100, time: Duration::from_secs(600), ..LIMITS };
    let resolved = frames_in_elf(&program.bytes(), &[start], limits).expect("an ELF file");
    // The symbol table still works.
    assert_eq!(resolved.frames[0].last().map(|frame| &*frame.name), Some("outer"));
    assert!(
        resolved.warnings.iter().any(|warning| warning.contains("more than the allowed 100 bytes")),
        "{:?}",
        resolved.warnings
    );
}

/// Each address of a function is in a hundred calls, which take a few bytes of the file.
#[test]
fn inlined_calls_around_many_addresses() {
    const SIZE: u64 = 20_000;
    let call = |number: u32, body: &str| {
        format!("static inline __attribute__((always_inline)) void f{number}(void) {{ {body} }}\n")
    };
    let mut source = call(0, &format!("__asm__ volatile(\".skip {SIZE}\");"));
    (1..100).for_each(|number| source += &call(number, &format!("f{}();", number - 1)));
    source += "__attribute__((noinline)) void outer(void) { f99(); }\nint main(void) { outer(); }\n";
    let program = Program::of_c(&source, &["-O1", "-g"]);
    let (start, _) = symbol(&program.path, "outer");
    let addresses: Vec<u64> = (start..start + SIZE).collect();
    let limits = Limits { memory: 4 << 20, time: Duration::from_secs(600), ..LIMITS };
    let resolved = frames_in_elf(&program.bytes(), &addresses, limits).expect("an ELF file");
    let count: usize = resolved.frames.iter().map(|frames| frames.len()).sum();
    assert!(count * size_of::<Frame>() < 4 << 20, "{count} frames");
    assert!(resolved.frames.iter().all(|frames| frames.last().is_some_and(|frame| &*frame.name == "outer")));
    let too_much = |warning: &String| warning.contains("more than the allowed 4194304 bytes");
    assert!(resolved.warnings.iter().any(too_much), "{:?}", resolved.warnings);
}

#[test]
fn no_time_at_all() {
    let program = Program::c(&["-O2", "-g"]);
    let (start, size) = symbol(&program.path, "outer");
    let limits = Limits { time: Duration::ZERO, ..LIMITS };
    // So little work that the clock may never be read; it must end either way.
    let addresses: Vec<u64> = (start..start + size).collect();
    assert!(frames_in_elf(&program.bytes(), &addresses, limits).is_ok());
}
