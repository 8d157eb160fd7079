//! Whole profiles: of this process, and of files that other processes map.

mod support;

use std::process::Command;
use std::time::Duration;

use flamelet_profile::{LocationId, Mapping, MappingSymbols, Profile, ProfileBuilder};
use flamelet_symbol::locate::Search;
use flamelet_symbol::process::{Process, ProcessMapping, code_mappings};
use flamelet_symbol::source::{self, SourcePath};
use flamelet_symbol::symbolize::{SymbolizeOptions, Symbolizer, symbolize_profile};
use flamelet_symbol::{Limits, buildid};
use support::{Program, run, symbol};

#[inline(never)]
fn a_function_of_this_test(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

fn add_mapping(builder: &mut ProfileBuilder, mapping: &ProcessMapping) -> flamelet_profile::MappingId {
    let build_id = mapping.build_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let (filename, build_id) = (builder.string(&mapping.path), builder.string(&build_id));
    builder.mapping(Mapping {
        start: mapping.start,
        limit: mapping.limit,
        offset: mapping.offset,
        filename,
        build_id,
        symbols: MappingSymbols::default(),
    })
}

/// A profile with one sample, whose stack is these addresses of this process.
fn profile_of(addresses: &[u64]) -> Profile {
    let mappings = code_mappings(Process::Own).expect("readable");
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let mut stack = Vec::new();
    for &address in addresses {
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.limit).contains(&address));
        let mapping = mapping.map(|mapping| add_mapping(&mut builder, mapping));
        stack.push(builder.address(mapping, address));
    }
    let stack = builder.stack(&stack);
    let none = builder.labels(&[]);
    builder.sample(stack, none, &[1]);
    builder.finish()
}

fn names(profile: &Profile, location: usize) -> Vec<String> {
    let lines = profile.lines(LocationId::from_index(location)).iter();
    lines
        .map(|line| profile.string(profile.function(line.function.expect("named")).name).to_owned())
        .collect()
}

#[test]
fn this_process() {
    let here = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
    let in_libc = libc_function();
    let mut profile = profile_of(&[here, in_libc]);
    let mut symbolizer =
        Symbolizer::new(SymbolizeOptions { limits: Limits::SERVICE, ..SymbolizeOptions::default() });
    let summary = symbolizer.symbolize_profile(&mut profile);
    assert_eq!((summary.asked, summary.resolved), (2, 2), "{summary:#?}");
    assert_eq!(names(&profile, 0).last().map(String::as_str), Some("whole_profile::a_function_of_this_test"));
    let own = &profile.mappings()[0];
    assert_eq!(own.symbols, MappingSymbols::ALL);
    let function = profile
        .function(profile.lines(LocationId::from_index(0)).last().and_then(|l| l.function).expect("named"));
    assert!(profile.string(function.filename).ends_with("whole_profile.rs"));
    assert_ne!(function.name, function.system_name);

    // A second profile of the same code is answered from memory.
    let before = symbolizer.memory();
    let mut again = profile_of(&[here, in_libc]);
    assert_eq!(symbolizer.symbolize_profile(&mut again).resolved, 2);
    assert_eq!(symbolizer.memory(), before);
    assert!(before < 8 << 20, "{before} bytes are remembered for two addresses");
}

/// The address of a function of the C library.
fn libc_function() -> u64 {
    libc::qsort as *const () as usize as u64
}

#[test]
fn symbols_that_are_there_stay_unless_forced() {
    let here = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
    let mut profile = profile_of(&[here]);
    let named = |name: &str| flamelet_profile::NamedLine { name: name.to_owned(), ..Default::default() };
    profile.relabel_locations(|_, _| Some(vec![named("already_known")]));
    assert_eq!(symbolize_profile(&mut profile, &SymbolizeOptions::default()).asked, 0);
    assert_eq!(names(&profile, 0), ["already_known"]);
    let summary =
        symbolize_profile(&mut profile, &SymbolizeOptions { force: true, ..SymbolizeOptions::default() });
    assert_eq!((summary.asked, summary.resolved), (1, 1));
    assert_ne!(names(&profile, 0), ["already_known"]);
}

#[test]
fn what_is_forgotten_is_found_again() {
    let here = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
    let mut symbolizer =
        Symbolizer::new(SymbolizeOptions { limits: Limits::SERVICE, ..SymbolizeOptions::default() });
    for _ in 0..3 {
        let mut profile = profile_of(&[here]);
        assert_eq!(symbolizer.symbolize_profile(&mut profile).resolved, 1);
        assert!(symbolizer.memory() > 0, "the answer is kept");
        symbolizer.shrink_to(0);
        assert_eq!(symbolizer.memory(), 0, "nothing is kept");
    }
}

#[test]
fn what_all_files_of_a_profile_take_together_has_a_limit() {
    let here = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
    let asked = |together: Limits| {
        let options = SymbolizeOptions { together: Some(together), ..SymbolizeOptions::default() };
        let summary = symbolize_profile(&mut profile_of(&[here, libc_function()]), &options);
        assert_eq!((summary.asked, summary.mappings.len()), (2, 2));
        let left_out = summary.warnings().filter(|(_, warning)| warning.starts_with("not opened: ")).count();
        (summary.resolved, left_out)
    };
    let most = Limits { memory: u64::MAX, time: Duration::MAX, held: u64::MAX };
    assert_eq!(asked(most), (2, 0));
    assert_eq!(asked(Limits { memory: 1, ..most }), (1, 1), "the first file has used it up");
    assert_eq!(asked(Limits { time: Duration::ZERO, ..most }), (0, 2));
}

/// Blocks that are dropped all the time are read again: every name is the same.
#[test]
fn little_room_for_debug_information_changes_nothing() {
    let mappings = code_mappings(Process::Own).expect("readable");
    let spread = |mapping: &ProcessMapping| (mapping.start..mapping.limit).step_by(4096).take(400);
    let addresses: Vec<u64> = mappings.iter().flat_map(spread).collect();
    let named_with = |held: u64| {
        let limits = Limits { held, ..Limits::default() };
        let mut profile = profile_of(&addresses);
        let summary =
            symbolize_profile(&mut profile, &SymbolizeOptions { limits, ..SymbolizeOptions::default() });
        let names: Vec<Vec<String>> =
            (0..profile.locations().len()).map(|location| names(&profile, location)).collect();
        (summary, names)
    };
    let (all, little) = (named_with(u64::MAX), named_with(1));
    assert!(all.0.resolved > 100, "{:?}", all.0);
    assert_eq!(all, little);
}

/// A program and a shared library, mapped at arbitrary addresses.
#[test]
fn mapped_files() {
    let program = Program::c(&["-O2", "-g", "-pie", "-fPIE"]);
    let library = program.file("library.so");
    run(Command::new("cc").args(["-O2", "-g", "-shared", "-fPIC", "-o"]).args([&library, &program.source]));
    for path in [&program.path, &library] {
        let headers = run(Command::new("readelf").args(["-l", "-W"]).arg(path));
        let load = headers.lines().find(|line| line.contains("LOAD") && line.contains("R E")).expect("code");
        let hex = |word: usize| {
            let word = load.split_whitespace().nth(word).expect("a column").trim_start_matches("0x");
            u64::from_str_radix(word, 16).expect("hexadecimal")
        };
        let (offset, address, size) = (hex(1), hex(2), hex(4));
        let (outer, _) = symbol(path, "outer");
        let start = 0x7f12_3456_7000;
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let mapping = ProcessMapping {
            start,
            limit: start + size.next_multiple_of(4096),
            offset,
            executable: true,
            path: path.display().to_string(),
            deleted: false,
            build_id: buildid::of_file(path).expect("an ELF file"),
        };
        let mapping = add_mapping(&mut builder, &mapping);
        builder.address(Some(mapping), start + (outer - address));
        let mut profile = builder.finish();
        let summary = symbolize_profile(&mut profile, &SymbolizeOptions::default());
        assert_eq!(names(&profile, 0), ["innermost", "middle", "outer"], "{summary:#?}");
        assert_eq!(&summary.mappings[0].sources, std::slice::from_ref(path));
    }
}

/// Old formats have no mappings: the user gives the binary.
#[test]
fn addresses_without_a_mapping() {
    let program = Program::c(&["-O2", "-g", "-no-pie", "-fno-pie"]);
    let (outer, _) = symbol(&program.path, "outer");
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    builder.address(None, outer);
    let mut profile = builder.finish();
    assert_eq!(symbolize_profile(&mut profile, &SymbolizeOptions::default()).asked, 0);
    let search = Search { binaries: vec![program.path.clone()], ..Search::default() };
    let summary =
        symbolize_profile(&mut profile, &SymbolizeOptions { search, ..SymbolizeOptions::default() });
    assert_eq!(names(&profile, 0), ["innermost", "middle", "outer"], "{summary:#?}");
}

#[test]
fn the_vdso() {
    let Some(vdso) = code_mappings(Process::Own).expect("readable").into_iter().find(|m| m.path == "[vdso]")
    else {
        flamelet_test_support::skip!("this kernel maps no vdso");
        return;
    };
    let every_16_bytes: Vec<u64> = (vdso.start..vdso.limit).step_by(16).collect();
    let mut profile = profile_of(&every_16_bytes);
    let summary = symbolize_profile(&mut profile, &SymbolizeOptions::default());
    let found: Vec<String> = (0..every_16_bytes.len()).flat_map(|row| names(&profile, row)).collect();
    assert!(found.iter().any(|name| name.contains("clock_gettime")), "{summary:#?} {found:?}");
}

#[test]
fn source_lines_with_their_cost() {
    let program = Program::c(&["-O2", "-g"]);
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let source = program.source.display().to_string();
    let (leaf, root) =
        (builder.named_function("innermost", &source), builder.named_function("outer", &source));
    let (at_4, at_5, at_11) = (builder.frame(leaf, 4), builder.frame(leaf, 5), builder.frame(root, 11));
    let none = builder.labels(&[]);
    for (stack, value) in [(&[at_4, at_11][..], 30), (&[at_5, at_11], 12), (&[at_11, at_11], 7)] {
        let stack = builder.stack(stack);
        builder.sample(stack, none, &[1, value]);
    }
    let profile = builder.finish();
    let listed =
        source::annotate(&profile, 1, |name| name == "outer" || name == "innermost", &SourcePath::default());
    assert_eq!(listed.len(), 2);
    let [outer, innermost] = &listed[..] else { unreachable!() };
    assert_eq!((outer.name.as_str(), outer.flat, outer.cumulative), ("outer", 7, 49));
    assert_eq!((innermost.name.as_str(), innermost.flat, innermost.cumulative), ("innermost", 42, 42));
    assert_eq!(innermost.found.as_deref(), Ok(program.source.as_path()));
    let line_4 = innermost.lines.iter().find(|line| line.line == 4).expect("shown");
    assert_eq!((line_4.flat, line_4.cumulative), (30, 30));
    assert!(line_4.text.contains("sink += x;"), "{}", line_4.text);
    assert_eq!((innermost.lines[0].line, innermost.lines.last().map(|line| line.line)), (1, Some(10)));

    // Built on another machine: found by the end of its path, or by trimming a given prefix.
    let elsewhere = SourcePath { folders: vec![program.folder.path().to_owned()], ..SourcePath::default() };
    let found = program.source.canonicalize().expect("it exists");
    assert_eq!(elsewhere.find("/build/7f3a/program.c"), Some(found.clone()));
    let trimmed = SourcePath { trim: vec!["/build/7f3a".to_owned()], ..elsewhere };
    assert_eq!(trimmed.find("/build/7f3a/program.c"), Some(found));
    assert_eq!(trimmed.find("/build/7f3a/no-such-file.c"), None);
}

#[test]
fn another_kernel_has_no_names_here() {
    if !std::path::Path::new("/sys/kernel/notes").exists() {
        flamelet_test_support::skip!("this kernel does not say its build id");
        return;
    }
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let (filename, build_id) = (builder.string("[kernel.kallsyms]"), builder.string("deadbeefdeadbeef"));
    let (start, limit) = (0xffff_ffff_8000_0000, 0xffff_ffff_c000_0000);
    let symbols = MappingSymbols::default();
    let kernel = builder.mapping(Mapping { start, limit, offset: 0, filename, build_id, symbols });
    builder.address(Some(kernel), 0xffff_ffff_8100_0100);
    let mut profile = builder.finish();
    let summary = symbolize_profile(&mut profile, &SymbolizeOptions::default());
    assert_eq!(names(&profile, 0), Vec::<String>::new());
    assert!(summary.warnings().any(|(_, warning)| warning.contains("another kernel")), "{summary:#?}");
}
