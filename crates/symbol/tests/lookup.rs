//! Names, lines and inlined frames of programs whose source is known, compared with GNU addr2line.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use flamelet_symbol::symbolize::{Frame, ModuleName, SymbolizeOptions, Symbolizer, frames_in_elf};
use flamelet_symbol::{Limits, MappedAt};
use support::{Program, addr2line, instruction_addresses, run, succeeds, symbol};

fn frames(path: &Path, addresses: &[u64]) -> Vec<Arc<[Frame]>> {
    let module = ModuleName { path: path.display().to_string(), build_id: String::new() };
    Symbolizer::new(SymbolizeOptions::default()).frames(&module, MappedAt::default(), addresses)
}

/// (name, file name, line) of each frame.
fn brief(frames: &[Frame]) -> Vec<(String, String, u32)> {
    let brief = frames.iter().map(|frame| {
        let file = frame.file.rsplit('/').next().unwrap_or("");
        (frame.name.to_string(), file.to_owned(), frame.line)
    });
    brief.collect()
}

/// Every instruction of `outer` is in one of the chains that the source allows, and the deepest is there.
fn check_c_program(program: &Program) {
    let (start, size) = symbol(&program.path, "outer");
    let addresses: Vec<u64> = (start..start + size).collect();
    let answers = frames(&program.path, &addresses);
    let deepest = [("innermost", 4), ("middle", 8), ("outer", 11)]
        .map(|(name, line)| (name.to_owned(), "program.c".to_owned(), line));
    assert!(answers.iter().any(|frames| brief(frames) == deepest), "the chain of three is found");
    for (address, frames) in addresses.iter().zip(&answers) {
        let outer = frames.last().unwrap_or_else(|| panic!("{address:#x} has frames"));
        assert_eq!((&*outer.name, &*outer.system_name, outer.start_line), ("outer", "outer", 10));
        assert!(outer.file.ends_with("/program.c"), "{}", outer.file);
    }
    let (helper, _) = symbol(&program.path, "local_helper");
    assert_eq!(&*frames(&program.path, &[helper])[0][0].name, "local_helper");
}

/// Compares with `addr2line -fi` on every instruction of the program's own functions, up to a few hundred.
fn check_against_addr2line(program: &Program, functions: &[&str]) {
    let mut addresses = Vec::new();
    for function in functions {
        let (start, size) = symbol(&program.path, function);
        addresses.extend(instruction_addresses(&program.path, start, start + size));
    }
    compare(&program.path, &addresses);
}

fn compare(path: &Path, addresses: &[u64]) {
    assert!(addresses.len() > 10, "there is something to compare");
    let theirs = addr2line(path, addresses);
    let ours = frames(path, addresses);
    assert_eq!(theirs.len(), ours.len());
    let mut differences = Vec::new();
    for ((&address, ours), theirs) in addresses.iter().zip(&ours).zip(&theirs) {
        // addr2line prints `??` where it knows nothing, and the bare `DW_AT_name` of C functions.
        let known = theirs.iter().filter(|frame| frame.function != "??");
        let theirs: Vec<_> =
            known.map(|frame| (frame.function.clone(), frame.file.clone(), frame.line)).collect();
        let same_as = |frame: &Frame, (function, file, line): &(String, String, u32)| {
            // For a function without lines, addr2line has the name of the unit, from a symbol.
            let file_agrees = *frame.file == **file || (frame.file.is_empty() && *line == 0);
            (*frame.system_name == **function || *frame.name == **function)
                && file_agrees
                && frame.line == *line
        };
        if ours.is_empty() && matches!(&theirs[..], [(_, _, 0)]) {
            // Between two functions addr2line names the one before.
            continue;
        }
        let agrees = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| same_as(a, b));
        if !agrees {
            differences.push(format!("{address:#x}:\n  ours {:?}\n  theirs {theirs:?}", brief(ours)));
        }
    }
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {} differ:\n{shown}", differences.len(), addresses.len());
}

#[test]
fn c_pie_and_not_pie() {
    for flags in [&["-O2", "-g", "-pie", "-fPIE"][..], &["-O2", "-g", "-no-pie", "-fno-pie"]] {
        let program = Program::c(flags);
        check_c_program(&program);
        check_against_addr2line(&program, &["outer", "local_helper", "main"]);
    }
}

#[test]
fn c_dwarf_versions() {
    for version in ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        let program = Program::c(&["-O2", version]);
        check_c_program(&program);
        check_against_addr2line(&program, &["outer", "local_helper", "main"]);
    }
}

#[test]
fn compressed_sections() {
    let program = Program::c(&["-O2", "-g", "-gz=zlib"]);
    check_c_program(&program);
    let program = Program::c(&["-O2", "-g"]);
    for format in ["zlib-gnu", "zlib-gabi", "zstd"] {
        let packed = program.file(format);
        let mut objcopy = Command::new("objcopy");
        objcopy.arg(format!("--compress-debug-sections={format}")).args([&program.path, &packed]);
        if format == "zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        if !succeeds(&mut objcopy) {
            flamelet_test_support::skip!("this objcopy cannot compress sections with {format}");
            continue;
        }
        let (start, size) = symbol(&program.path, "outer");
        let addresses: Vec<u64> = (start..start + size).collect();
        assert_eq!(frames(&packed, &addresses), frames(&program.path, &addresses), "{format}");
    }
}

#[test]
fn c_split_dwarf() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        // Compiled to an object first: the compiler names the .dwo after it.
        let program = Program::c(&["-O2", version]);
        let folder = program.folder.path();
        run(Command::new("cc").current_dir(folder).args([
            "-O2",
            version,
            "-gsplit-dwarf",
            "-c",
            "program.c",
        ]));
        run(Command::new("cc").current_dir(folder).args(["-o", "program", "program.o"]));
        assert!(program.file("program.dwo").is_file());
        check_c_program(&program);

        // Packed: the .dwo itself may be missing. (GNU dwp knows DWARF 4 only; rustc packs the other kind below.)
        if version == "-gdwarf-4" {
            run(Command::new("dwp").current_dir(folder).args(["-e", "program", "-o", "program.dwp"]));
            std::fs::rename(program.file("program.dwo"), program.file("kept")).expect("renamed");
            check_c_program(&program);
            std::fs::remove_file(program.file("program.dwp")).expect("removed");
            std::fs::rename(program.file("kept"), program.file("program.dwo")).expect("renamed");
        }

        // Neither: names from the symbol table, lines from the skeleton.
        std::fs::remove_file(program.file("program.dwo")).expect("removed");
        let (start, _) = symbol(&program.path, "outer");
        let frames = frames(&program.path, &[start]);
        assert_eq!((frames[0].len(), &*frames[0][0].name), (1, "outer"));
        assert!(frames[0][0].file.ends_with("/program.c") && frames[0][0].line > 0);
    }
}

#[test]
fn rust_manglings() {
    for mangling in ["legacy", "v0"] {
        let flag = format!("-Csymbol-mangling-version={mangling}");
        let program = Program::rust(&["-Copt-level=2", "-g", "-Zunstable-options", &flag]);
        let (start, size) = symbol(&program.path, "program::holder");
        let addresses: Vec<u64> = (start..start + size).collect();
        let answers = frames(&program.path, &addresses);
        let parent_in_holder: Vec<(String, String, u32)> = vec![
            ("program::inlined_parent".into(), "program.rs".into(), 24),
            ("program::holder".into(), "program.rs".into(), 28),
        ];
        assert!(
            answers.iter().any(|frames| brief(frames).ends_with(&parent_in_holder)),
            "{mangling}: {:?}",
            answers.iter().map(|frames| brief(frames)).collect::<Vec<_>>()
        );
        let holder = answers[0].last().expect("named");
        assert_eq!((&*holder.name, holder.start_line), ("program::holder", 27));
        assert!(holder.system_name.starts_with(if mangling == "v0" { "_R" } else { "_ZN" }));
        check_against_addr2line(&program, &["program::holder", "program::main"]);
    }
}

#[test]
fn rust_without_full_debug_information() {
    for level in ["-Cdebuginfo=line-tables-only", "-Cdebuginfo=1"] {
        let program = Program::rust(&["-Copt-level=2", level]);
        let (start, _) = symbol(&program.path, "program::holder");
        let frames = frames(&program.path, &[start]);
        let holder = frames[0].last().expect("named");
        assert_eq!(&*holder.name, "program::holder", "{level}");
        assert!((27..=29).contains(&holder.line), "{level}: {}", holder.line);
        assert_ne!(holder.name, holder.system_name);
    }
}

#[test]
fn rust_split_debug_information() {
    for kind in ["packed", "unpacked"] {
        let whole = Program::rust(&["-Copt-level=2", "-g"]);
        let split = Program::rust(&["-Copt-level=2", "-g", &format!("-Csplit-debuginfo={kind}")]);
        let (start, size) = symbol(&split.path, "program::holder");
        let answers = frames(&split.path, &(start..start + size).collect::<Vec<u64>>());
        let (start, size) = symbol(&whole.path, "program::holder");
        let expected = frames(&whole.path, &(start..start + size).collect::<Vec<u64>>());
        let brief_all =
            |answers: &[Arc<[Frame]>]| answers.iter().map(|frames| brief(frames)).collect::<Vec<_>>();
        assert_eq!(brief_all(&answers), brief_all(&expected), "{kind}");
    }
}

#[test]
fn cpp_names() {
    let program = Program::cpp(&["-O2", "-g"]);
    let (start, size) = symbol(&program.path, "fill(int)");
    let answers = frames(&program.path, &(start..start + size).collect::<Vec<u64>>());
    let twice = answers.iter().flat_map(|frames| frames.iter()).find(|frame| frame.name.contains("twice"));
    let twice = twice.expect("the inlined method is found");
    assert_eq!(&*twice.name, "shop::Basket<long>::twice(long)");
    assert_eq!(&*twice.system_name, "_ZN4shop6BasketIlE5twiceEl");
    check_against_addr2line(&program, &["fill(int)", "shop::Basket<long>::add(long)", "main"]);
}

/// Addresses all over a Rust program, the standard library included.
#[test]
fn whole_rust_program_against_addr2line() {
    let program = Program::rust(&["-Copt-level=3", "-g", "-Ccodegen-units=4"]);
    let headers = run(Command::new("readelf").args(["-S", "-W"]).arg(&program.path));
    let text = headers.lines().find(|line| line.contains(" .text ")).expect("code");
    let words: Vec<&str> = text.split(']').nth(1).expect("a section line").split_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word, 16).expect("hexadecimal");
    let (start, size) = (hex(words[2]), hex(words[4]));
    let addresses: Vec<u64> = (0..1500).map(|step| start + size * step / 1500).collect();
    compare(&program.path, &addresses);
}

#[test]
fn stripped_programs_answer_from_their_symbol_tables() {
    let program = Program::c(&["-O2", "-g", "-rdynamic"]);
    let (start, size) = symbol(&program.path, "outer");
    let (helper, _) = symbol(&program.path, "local_helper");
    let end = start + size - 1;

    run(Command::new("strip").arg("--strip-debug").arg(&program.path));
    let answers = frames(&program.path, &[start, end, helper]);
    assert_eq!(brief(&answers[0]), [("outer".into(), String::new(), 0)]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(brief(&answers[2]), [("local_helper".into(), String::new(), 0)]);

    // Only the dynamic symbols are left: `outer` is exported, `local_helper` is not.
    run(Command::new("strip").arg(&program.path));
    let answers = frames(&program.path, &[start, end, helper]);
    assert_eq!(brief(&answers[0]), [("outer".into(), String::new(), 0)]);
    assert!(answers[2].is_empty(), "{:?}", answers[2]);
}

/// Code between symbols, for which only the line is known.
#[test]
fn assembly_without_a_function() {
    let program = Program::c(&["-O2", "-g"]);
    let source = program.file("code.s");
    let text = ".text\n.globl known\n.type known,@function\nknown:\n nop\n ret\n.size known,.-known\n nop\n nop\n ret\n";
    std::fs::write(&source, text).expect("written");
    let library = program.file("code.so");
    run(Command::new("cc").args(["-g", "-shared", "-nostdlib", "-o"]).args([&library, &source]));
    let (start, size) = symbol(&library, "known");
    let answers = frames(&library, &[start, start + size + 1]);
    assert_eq!(brief(&answers[0]), [("known".into(), "code.s".into(), 5)]);
    assert_eq!(brief(&answers[1]), [("code.s".into(), "code.s".into(), 9)]);
}

/// As where a program starts: a symbol without a size, which only the debug file has.
#[test]
fn assembly_is_named_by_a_debug_file() {
    let program = Program::c(&["-O2"]);
    let source = program.file("code.s");
    let text =
        ".text\n.type known,@function\nknown:\n nop\n ret\n.size known,.-known\nbare:\n nop\n nop\n ret\n";
    std::fs::write(&source, text).expect("written");
    let (library, debug) = (program.file("code.so"), program.file("code.debug"));
    run(Command::new("cc").args(["-shared", "-nostdlib", "-o"]).args([&library, &source]));
    run(Command::new("objcopy").arg("--only-keep-debug").args([&library, &debug]));
    let (start, size) = symbol(&library, "known");
    for file in [&library, &debug] {
        assert_eq!(brief(&frames(file, &[start + size + 1])[0]), [("bare".into(), String::new(), 0)]);
    }
}

#[test]
fn bytes_in_memory_need_no_file() {
    let program = Program::c(&["-O2", "-g"]);
    let (start, _) = symbol(&program.path, "outer");
    let resolved = frames_in_elf(&program.bytes(), &[start, start, 1], Limits::SERVICE).expect("an ELF file");
    assert_eq!(resolved.frames[0], resolved.frames[1]);
    assert_eq!(resolved.frames[0].last().map(|frame| &*frame.name), Some("outer"));
    assert!(resolved.frames[2].is_empty());
    assert!(resolved.warnings.is_empty(), "{:?}", resolved.warnings);
}

/// No symbol table has the stubs of functions in other files; objdump names them by their relocations too.
#[test]
fn stubs_have_the_names_of_what_they_call() {
    for flags in [&["-O2", "-s", "-Wl,-z,lazy"][..], &["-O2", "-s", "-Wl,-z,now", "-fno-lto"]] {
        let program = Program::c(flags);
        let listing = run(Command::new("objdump").arg("-d").arg(&program.path));
        let stubs = listing.lines().filter_map(|line| {
            let (address, name) = line.strip_suffix("@plt>:")?.split_once(" <")?;
            Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
        });
        let (address, name) = { stubs }.find(|(_, name)| name == "printf").expect("a call of printf");
        for inside in [0, 4, 15] {
            assert_eq!(
                brief(&frames(&program.path, &[address + inside])[0]),
                [(name.clone(), String::new(), 0)]
            );
        }
        assert!(frames(&program.path, &[address - 256])[0].is_empty(), "code without a name");
    }
}
