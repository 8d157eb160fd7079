//! Disassembly, against objdump.
#![cfg(feature = "disasm")]

mod support;

use std::process::Command;

use flamelet_profile::{Mapping, ProfileBuilder};
use flamelet_symbol::disassemble::{self, Style};
use flamelet_symbol::symbolize::{SymbolizeOptions, Symbolizer};
use support::{Program, instruction_addresses, run, symbol};

#[test]
fn instructions_start_where_objdump_says() {
    let program = Program::rust(&["-Copt-level=3", "-g"]);
    let bytes = program.bytes();
    let headers = run(Command::new("readelf").args(["-S", "-W"]).arg(&program.path));
    let text = headers.lines().find(|line| line.contains(" .text ")).expect("code");
    let words: Vec<&str> = text.split(']').nth(1).expect("a section line").split_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word, 16).expect("hexadecimal");
    let (start, size) = (hex(words[2]), hex(words[4]));
    let ours = disassemble::range(&bytes, start..start + size, Style::default()).expect("code");
    let ours: Vec<u64> = ours.iter().map(|instruction| instruction.address).collect();
    let theirs = instruction_addresses(&program.path, start, start + size);
    assert!(theirs.len() > 10_000, "{} instructions", theirs.len());
    let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    assert!(ours == theirs, "they differ from {:?} on", first.map(|at| (ours[at], theirs[at])));
}

#[test]
fn a_function_by_name() {
    let program = Program::c(&["-O2", "-g", "-fcf-protection=none"]);
    let bytes = program.bytes();
    let (start, size) = symbol(&program.path, "main");
    let main = disassemble::function(&bytes, "main", Style::default()).expect("found");
    assert_eq!(main.first().map(|first| first.address), Some(start));
    let end = main.last().map(|last| last.address + last.length as u64);
    assert_eq!(end, Some(start + size));
    assert!(
        main.iter().any(|row| row.text.starts_with("call") && row.text.ends_with("<outer>")),
        "{main:#?}"
    );
    let error = disassemble::function(&bytes, "no_such_function", Style::default()).expect_err("missing");
    assert_eq!(error.to_string(), "no function no_such_function");
}

#[test]
fn hot_instructions_of_a_profile() {
    let program = Program::c(&["-O2", "-g", "-no-pie", "-fno-pie"]);
    let (start, size) = symbol(&program.path, "local_helper");
    let addresses = instruction_addresses(&program.path, start, start + size);
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let filename = builder.string(&program.path.display().to_string());
    let mapping = builder.mapping(Mapping { filename, ..Mapping::default() });
    let none = builder.labels(&[]);
    let (hot, cold) = (addresses[1], addresses[addresses.len() - 1]);
    for (address, value) in [(hot, 40), (cold, 2)] {
        let location = builder.address(Some(mapping), address);
        let stack = builder.stack(&[location]);
        builder.sample(stack, none, &[value]);
    }
    let profile = builder.finish();
    let mut symbolizer = Symbolizer::new(SymbolizeOptions::default());
    let (functions, warnings) =
        disassemble::annotate(&profile, 0, |name| name == "local_helper", &mut symbolizer, Style::default());
    assert!(warnings.is_empty(), "{warnings:?}");
    let [helper] = &functions[..] else { panic!("one function: {functions:?}") };
    assert_eq!((helper.flat, helper.cumulative, helper.instructions.len()), (42, 42, addresses.len()));
    let row = helper.instructions.iter().find(|row| row.process_address == hot).expect("listed");
    assert_eq!((row.flat, row.instruction.address), (40, hot));
    assert!(row.frames.last().is_some_and(|frame| &*frame.name == "local_helper" && frame.line >= 14));
}
