//! Disassembly, against objdump; and what `inspect` sees in binaries built on purpose.

mod support;

use std::process::Command;

use flamelet_profile::{Mapping, ProfileBuilder};
use flamelet_symbol::disassemble::{self, Style};
use flamelet_symbol::inspect::{FramePointerUse, Kind, inspect};
use flamelet_symbol::symbolize::{Options, Symbolizer};
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
    let mut symbolizer = Symbolizer::new(Options::default());
    let (functions, warnings) =
        disassemble::annotate(&profile, 0, |name| name == "local_helper", &mut symbolizer, Style::default());
    assert!(warnings.is_empty(), "{warnings:?}");
    let [helper] = &functions[..] else { panic!("one function: {functions:?}") };
    assert_eq!((helper.flat, helper.cumulative, helper.instructions.len()), (42, 42, addresses.len()));
    let row = helper.instructions.iter().find(|row| row.process_address == hot).expect("listed");
    assert_eq!((row.flat, row.instruction.address), (40, hot));
    assert!(row.frames.last().is_some_and(|frame| &*frame.name == "local_helper" && frame.line >= 14));
}

#[test]
fn inspecting_programs() {
    let full =
        Program::c(&["-O2", "-g", "-gz=zlib", "-pie", "-fPIE", "-Wl,--build-id", "-fno-omit-frame-pointer"]);
    let found = inspect(&full.path).expect("an ELF file");
    assert_eq!(found.kind, Kind::Relocatable);
    assert!(found.build_id.is_some() && found.unwind_tables && found.symbols > 0);
    assert!(found.debug_info.functions && found.debug_info.lines && !found.debug_info.split);
    assert_eq!(found.compression.as_deref(), Some("zlib"));
    assert!(found.producers.iter().any(|producer| producer.contains("GCC") || producer.contains("clang")));

    run(Command::new("strip").arg(&full.path));
    let stripped = inspect(&full.path).expect("an ELF file");
    assert_eq!((stripped.symbols, stripped.debug_info.functions), (0, false));
    assert!(stripped.unwind_tables && stripped.build_id == found.build_id);

    let split = Program::rust(&["-g", "-Csplit-debuginfo=unpacked", "-Crelocation-model=static"]);
    let found = inspect(&split.path).expect("an ELF file");
    assert!(found.debug_info.split);
    assert_eq!(found.kind, Kind::Program);

    let error = inspect(&full.source).expect_err("a C file");
    assert!(error.to_string().ends_with("program.c: not an ELF file"), "{error}");
}

#[test]
fn frame_pointers_by_their_prologues() {
    let without = Program::rust(&["-Copt-level=2", "-Cforce-frame-pointers=no"]);
    let with = Program::rust(&["-Copt-level=0", "-Cforce-frame-pointers=yes"]);
    let of = |program: &Program| inspect(&program.path).expect("an ELF file").frame_pointers;
    // The standard library is the same in both, so only the program's own functions differ.
    let (with_ratio, without_ratio) = (of(&with), of(&without));
    assert!(
        with_ratio.functions > 100
            && with_ratio.with * without_ratio.functions > without_ratio.with * with_ratio.functions,
        "{with_ratio:?} {without_ratio:?}"
    );

    let source = with.file("many.c");
    let body = "volatile long a[16]; for (int i = 0; i < 16; i++) { a[i] = x; a[x] += i * a[i]; } \
                a[2] = a[x] * a[3]; a[4] = a[x + 1] / a[5]; return a[x] + a[1];";
    let bodies: String = (0..50).map(|n| format!("long f{n}(long x) {{ {body} }}\n")).collect();
    std::fs::write(&source, bodies).expect("written");
    for (flag, verdict) in
        [("-fno-omit-frame-pointer", FramePointerUse::Yes), ("-fomit-frame-pointer", FramePointerUse::No)]
    {
        let library = with.file("many.so");
        run(Command::new("cc").args(["-O1", "-shared", "-fPIC", flag, "-o"]).args([&library, &source]));
        assert_eq!(inspect(&library).expect("an ELF file").frame_pointers.verdict(), verdict, "{flag}");
        run(Command::new("strip").arg(&library));
        assert_eq!(
            inspect(&library).expect("an ELF file").frame_pointers.verdict(),
            verdict,
            "{flag}, stripped"
        );
    }
}
