//! `inspect` on binaries built for this test.

mod support;

use std::process::Command;

use flamelet_symbol::inspect::{BinaryKind, FramePointerUse, has_overflow_checks, inspect};
use support::{Program, run};

#[test]
fn inspecting_programs() {
    let full =
        Program::c(&["-O2", "-g", "-gz=zlib", "-pie", "-fPIE", "-Wl,--build-id", "-fno-omit-frame-pointer"]);
    let found = inspect(&full.path).expect("an ELF file");
    assert_eq!(found.kind, BinaryKind::Relocatable);
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
    assert_eq!(found.kind, BinaryKind::Program);

    let error = inspect(&full.source).expect_err("a C file");
    assert!(error.to_string().ends_with("program.c: not an ELF file"), "{error}");
}

#[test]
fn overflow_checks_are_found_by_what_they_call() {
    let checks = |flags: &[&str]| {
        let program = Program::rust(flags);
        has_overflow_checks(&program.path).expect("an ELF file")
    };
    assert!(checks(&["-Copt-level=2", "-Coverflow-checks=on"]));
    assert!(checks(&["-Copt-level=2", "-Cdebug-assertions=on"]));
    assert!(!checks(&["-Copt-level=2"]));
    assert!(!checks(&["-Copt-level=2", "-Coverflow-checks=on", "-Cstrip=symbols"]), "unknown");
}

#[test]
fn bare_names() {
    let bare = |level: &str| {
        let program = Program::rust(&["-Copt-level=2", level]);
        inspect(&program.path).expect("an ELF file").debug_info
    };
    let (lines_only, limited) = (bare("-Cdebuginfo=line-tables-only"), bare("-Cdebuginfo=1"));
    assert!(lines_only.units_with_bare_names > 0, "{lines_only:?}");
    assert_eq!(limited.units_with_bare_names, 0, "{limited:?}");
    assert!(limited.units > 0);
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
